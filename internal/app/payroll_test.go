package app_test

import (
	"encoding/json"
	"time"
)

// These types hold the parts of API responses that tests read. Amounts stay text because they are money.
type (
	createdPayroll struct {
		PayrollID string      `json:"payroll_id"`
		Fees      json.Number `json:"fees"`
		Volume    json.Number `json:"volume_input_in_input_currency"`
		Total     json.Number `json:"total_input_in_input_currency"`
		Quote     struct {
			ValidTo         time.Time   `json:"valid_to"`
			Rate            json.Number `json:"rate"`
			FundingCurrency string      `json:"funding_currency"`
			FundingAmount   json.Number `json:"funding_amount"`
			FundingDetails  struct {
				Address string `json:"address"`
				Network string `json:"network"`
			} `json:"funding_details"`
		} `json:"quote"`
	}
	payrollDetail struct {
		Status       string `json:"status"`
		FundingState string `json:"funding_state"`
		Deposits     []struct {
			Confirmations int64 `json:"confirmations"`
		} `json:"deposits"`
		Payments []payment `json:"payments"`
	}
	payment struct {
		ID      string   `json:"subpayroll_id"`
		UserID  string   `json:"user_id"`
		Name    string   `json:"name"`
		Status  string   `json:"status"`
		Reason  string   `json:"reason"`
		Outputs []output `json:"outputs"`
	}
	output struct {
		Status   string      `json:"status"`
		State    string      `json:"state"`
		Currency string      `json:"output_currency"`
		Volume   json.Number `json:"volume_output_in_output_currency"`
		TxHash   string      `json:"tx_hash"`
	}
)
