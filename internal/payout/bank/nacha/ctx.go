package nacha

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mozillazg/go-unidecode"
)

// classCTX is the class of entries to companies whose addenda records contain a transaction set of ANSI X12.
const classCTX = "CTX"

// Advice is a payment order and remittance advice, transaction set 820 of ANSI X12. It describes what a CTX entry
// pays for.
type Advice struct {
	Reference string // reference of the payment
	Payer     string
	Payee     string
	Invoice   string // number of the invoice
	Note      string
	Cents     int64
	Created   time.Time
	Effective time.Time
}

// Encode returns the interchange with the transaction set. It removes the separators of X12 from the texts. It
// returns an error if a text is empty afterwards, which X12 does not permit.
func (a Advice) Encode() (string, error) {
	text := a.interchange()
	return text, checkAdvice(text, a.Cents)
}

func (a Advice) interchange() string {
	clean := func(s string, n int) string {
		return ascii(strings.NewReplacer("*", " ", "\\", " ", "~", " ", ">", " ").Replace(unidecode.Unidecode(s)), n)
	}
	amount := fmt.Sprintf("%d.%02d", a.Cents/100, a.Cents%100)
	set := []string{"ST*820*0001", "BPR*C*" + amount + "*C*ACH*CTX***********" + a.Effective.Format("20060102"),
		"NTE*PMT*" + clean(a.Note, 80), "TRN*1*" + clean(a.Reference, 30), "N1*PR*" + clean(a.Payer, 60),
		"N1*PE*" + clean(a.Payee, 60), "ENT*1", "RMR*IV*" + clean(a.Invoice, 30) + "**" + amount}
	set = append(set, fmt.Sprintf("SE*%d*0001", len(set)+1))
	from, to := fmt.Sprintf("%-15s", clean(a.Payer, 15)), fmt.Sprintf("%-15s", clean(a.Payee, 15))
	at := a.Created.Format("060102*1504")
	head := []string{"ISA*00*          *00*          *ZZ*" + from + "*ZZ*" + to + "*" + at + "*U*00401*000000001*0*P*>",
		"GS*RA*" + strings.TrimSpace(from) + "*" + strings.TrimSpace(to) + "*" + a.Created.Format("20060102*1504") +
			"*1*X*004010"}
	return strings.Join(append(append(head, set...), "GE*1*1", "IEA*1*000000001"), "\\") + "\\"
}

// remittanceSegment matches the segment that states an invoice and the amount paid of it.
var remittanceSegment = regexp.MustCompile(`^RMR\*IV\*[^*]+\*\*[0-9]+\.[0-9]{2}$`)

// checkAdvice returns an error unless a text is an interchange with one transaction set 820 that pays the given
// amount, with correct counts.
func checkAdvice(text string, cents int64) error {
	segments := strings.Split(strings.TrimSuffix(strings.TrimSpace(text), "\\"), "\\")
	var names []string
	amount := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	paid := false
	start := 0
	for i, s := range segments {
		elements := strings.Split(s, "*")
		names = append(names, elements[0])
		switch elements[0] {
		case "ISA":
			if len(s) != 105 {
				return fmt.Errorf("the segment ISA has %d characters, not 105", len(s))
			}
		case "ST":
			start = i
			if len(elements) != 3 || elements[1] != "820" {
				return errors.New("the transaction set is not 820")
			}
		case "BPR":
			paid = len(elements) > 5 && elements[2] == amount && elements[5] == classCTX
		case "RMR":
			if !remittanceSegment.MatchString(s) {
				return errors.New("a segment RMR has no invoice or no amount")
			}
		case "SE":
			if len(elements) != 3 || elements[1] != strconv.Itoa(i-start+1) {
				return errors.New("the number of segments is wrong")
			}
		}
		if strings.HasSuffix(s, "*") || elements[0] == "GS" && slices.Contains(elements, "") {
			return fmt.Errorf("a segment %s has an empty element", elements[0])
		}
	}
	order := strings.Join(names, " ")
	if !strings.HasPrefix(order, "ISA GS ST BPR ") || !strings.HasSuffix(order, " SE GE IEA") ||
		!strings.Contains(order, " RMR ") {
		return errors.New("the addenda records are not an order of ANSI X12")
	}
	if !paid {
		return errors.New("the order does not pay the amount of the entry")
	}
	return nil
}
