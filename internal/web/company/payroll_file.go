package company

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
)

// readPayments reads a CSV file of payments into a draft and returns the line number of each payment. The header is
// on line 1. It accepts what spreadsheets write: a byte order mark, semicolons as separators, and apostrophes
// before formulas.
func readPayments(text string, d *draft) (lines []int, err error) {
	var list apierr.List
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.TrimSpace(text) == "" {
		list.Add("no_file", "/file", "Choose a file, or paste CSV.")
		return nil, list.Err()
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	if line, _, _ := strings.Cut(text, "\n"); !strings.Contains(line, ",") && strings.Contains(line, ";") {
		r.Comma = ';'
	}
	header, err := r.Read()
	if err != nil {
		list.Add("invalid_csv", "/file", "The first row must contain the column names, such as payee,amount.")
		return nil, list.Err()
	}
	for i, name := range header {
		header[i] = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(importColumns, header[i]) || slices.Index(header, header[i]) < i {
			list.Add("unknown_column", atRow(1, fmt.Sprint(i+1)), "Unknown or duplicate column.")
		}
	}
	for _, name := range importColumns[:2] {
		if !slices.Contains(header, name) {
			list.Add("missing_column", atRow(1, name), "Missing column.")
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			list.Add("line_unreadable", "/file", fmt.Sprintf(
				"Line %d is not valid CSV. Check its quotes.", broken.StartLine))
			return nil, list.Err()
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		if len(d.Items) == payroll.MaxPayees {
			list.Add("too_many_rows", "/file", fmt.Sprintf(
				"A payroll has at most %d payments. Split the file.", payroll.MaxPayees))
			return nil, list.Err()
		}
		if len(record) != len(header) {
			list.Add("line_unreadable", atRow(line, ""), fmt.Sprintf(
				"The line has %d fields, but the header has %d.", len(record), len(header)))
			continue
		}
		it, problem := readPayment(header, record)
		if problem != "" {
			list.Add("invalid_parameter", atRow(line, "is_premium"), problem)
		}
		d.Items, lines = append(d.Items, it), append(lines, line)
	}
	if len(d.Items) == 0 && list.Empty() {
		list.Add("no_rows", "/file", "The file has no rows below the header.")
	}
	return lines, list.Err()
}

func readPayment(header, record []string) (it draftItem, problem string) {
	to := map[string]*string{
		"payee": &it.Payee, "amount": &it.Amount, "description": &it.Description, "category": &it.Category,
		"external_payment_id": &it.External, "invoice_id": &it.Invoice, "country": &it.Country,
	}
	for i, value := range record {
		value = payee.PlainCell(strings.TrimSpace(value))
		if text := to[header[i]]; text != nil {
			*text = value
			continue
		}
		switch strings.ToLower(value) {
		case "true", "yes", "1":
			it.Premium = true
		case "", "false", "no", "0":
		default:
			problem = "Enter true or false."
		}
	}
	return it, problem
}
