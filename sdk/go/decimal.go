package stipend

import (
	"encoding/json"
	"fmt"
	"math/big"
)

// Decimal is an exact decimal number in JSON notation, for example "1250.50". The empty string means absent.
type Decimal string

// MarshalJSON writes the number, not a string.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("null"), nil
	}
	var n json.Number
	if err := json.Unmarshal([]byte(d), &n); err != nil {
		return nil, fmt.Errorf("stipend: %q is not a decimal number", string(d))
	}
	return []byte(n), nil
}

// UnmarshalJSON reads a JSON number and keeps its digits.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*d = ""
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	*d = Decimal(n)
	return nil
}

// Rat returns the exact value for calculations. It returns nil if d is empty or not a number.
func (d Decimal) Rat() *big.Rat {
	r, ok := new(big.Rat).SetString(string(d))
	if !ok {
		return nil
	}
	return r
}
