package destination

import (
	"encoding/json"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/lightning"
)

// A payee can be paid over Lightning in two ways: at a Lightning address, whose server is asked for an invoice for
// each payment, or by a BOLT 11 invoice, which is paid once. Such an invoice has no amount, or exactly that of the
// payment.

var errExpired = apierr.New(apierr.Invalid, "address_invalid",
	"This invoice has expired. Create one in the wallet that is valid until the payment, or give a Lightning address.")

// Members of distribution_data for a destination over Lightning.
const (
	lightningAddressKey = "lightning_address"
	lightningInvoiceKey = "lightning_invoice"
)

// maxInvoice is longer than the invoices of any wallet.
const maxInvoice = 2000

var lightningFields = []Field{
	{Key: lightningAddressKey, Label: "Lightning address", Type: "text", OneOf: "receiver", MaxLength: 254,
		Example: "ana@wallet.example", Rail: RailLightning},
	{Key: lightningInvoiceKey, Label: "Lightning invoice (BOLT 11), paid once", Type: "text", OneOf: "receiver",
		MaxLength: maxInvoice, Rail: RailLightning},
}

// overLightning reports whether distribution_data describes a destination over Lightning.
func overLightning(members map[string]any) bool {
	return members[lightningAddressKey] != nil || members[lightningInvoiceKey] != nil
}

// checkLightning checks the members of a destination over Lightning.
func (s Setup) checkLightning(d Destination, members map[string]any) (Destination, []byte, error) {
	var problems apierr.List
	refuseUnknown(&problems, base, members, lightningAddressKey, lightningInvoiceKey, "network")
	to := strings.ToLower(strings.TrimSpace(text(&problems, members, lightningAddressKey, false)))
	invoice := strings.ToLower(strings.TrimSpace(text(&problems, members, lightningInvoiceKey, false)))
	invoice = strings.TrimPrefix(invoice, "lightning:")
	if on := text(&problems, members, "network", false); on != "" && on != RailLightning {
		problems.Add("invalid_parameter", base+"/network", "The network of a Lightning destination is lightning.")
	}
	d.Rail, d.Network = RailLightning, RailLightning
	clean := map[string]string{"network": d.Network}
	switch {
	case to != "" && invoice != "":
		problems.Add("invalid_parameter", base+"/"+lightningInvoiceKey, "Give a Lightning address or an invoice, not both.")
	case invoice == "":
		d.Address, clean[lightningAddressKey] = to, to
		if !lightning.IsAddress(to) {
			problems.Add("address_invalid", base+"/"+lightningAddressKey,
				"A Lightning address looks like an email address, such as ana@wallet.example.")
		}
	default:
		d.Address, clean[lightningInvoiceKey] = invoice, invoice
		r, err := lightning.Decode(invoice)
		switch {
		case err != nil || len(invoice) > maxInvoice:
			problems.Add("address_invalid", base+"/"+lightningInvoiceKey,
				"This is not a Lightning invoice (BOLT 11). Copy it from the wallet again.")
		case r.Network != s.BitcoinNetwork:
			problems.Add("address_invalid", base+"/"+lightningInvoiceKey,
				"This invoice is for another network. Payments are made on "+s.BitcoinNetwork+".")
		}
	}
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	data, err := json.Marshal(clean)
	d.Data = data
	return d, nil, err
}
