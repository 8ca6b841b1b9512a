package claim

import (
	"context"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	lightningrail "github.com/stipend/stipend/internal/payout/lightning"
)

// The payer of a refund in bitcoin may enter a Lightning address, or an invoice for exactly the net amount of the
// refund, instead of an address on the chain. The largest possible fee of the payment is deducted, because the payee
// can influence the route.

// LightningRefunds has the limits of refunds over Lightning, which are the limits of the rail that pays them.
type LightningRefunds struct {
	MaxFeeBps   int64 // largest fee in basis points of the amount
	Least, Most int64 // satoshis that a payer receives
}

// minInvoiceLife is the remaining validity that an invoice must have, so that a short delay does not prevent its
// payment.
const minInvoiceLife = 10 * time.Minute

var (
	errLightningAmount = apierr.New(apierr.Invalid, "lightning_amount",
		"A refund of this amount cannot be paid over Lightning. Enter a Bitcoin address.")
	errLightningOnly = apierr.New(apierr.Invalid, "lightning_only",
		"Sending this refund to a Bitcoin address costs too much at the moment. Enter a Lightning address or an invoice.")
	errInvoiceAmount = apierr.New(apierr.Invalid, "invoice_amount",
		"The invoice is for another amount. Create one for exactly the amount you receive.")
	errInvoiceExpires = apierr.New(apierr.Invalid, "invoice_expired",
		"This invoice has expired, or is about to. Create one that is valid for at least an hour.")
	errInvoice = apierr.New(apierr.Invalid, "invoice_invalid",
		"This is not a Lightning invoice (BOLT 11). Copy it from the wallet again.")
	errInvoiceNetwork = apierr.New(apierr.Invalid, "invoice_network",
		"This invoice is for another network. Create one in a wallet on the network of this payment.")
)

// ByLightning returns the refund as it would be paid over Lightning, with its fee, or false if it cannot be paid over
// Lightning.
func (s *Service) ByLightning(r Refund) (Refund, bool) {
	limits := s.LightningRefunds
	if limits == nil || r.Amount.Asset() != money.BTC {
		return r, false
	}
	r.Network, r.Fee = lightning.Chain, money.New(money.BTC, lightningrail.MaxFee(r.Amount.Units(), limits.MaxFeeBps))
	net := r.Net().Units()
	return r, limits.Least <= net && net <= limits.Most
}

// lightningTarget returns a Lightning address or a payment request in its normal form. ok is false for any other
// text.
func lightningTarget(text string) (to string, ok bool) {
	to = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "lightning:")
	return to, lightning.IsAddress(to) || strings.HasPrefix(to, "ln")
}

// checkLightning returns the refund as it would be paid to a Lightning address or an invoice.
func (s *Service) checkLightning(ctx context.Context, tx *db.Tx, r Refund, to string) (Refund, error) {
	r, ok := s.ByLightning(r)
	if !ok {
		return Refund{}, errLightningAmount.At("body", "/address")
	}
	if r.Address = to; lightning.IsAddress(to) {
		return r, nil
	}
	invoice, err := lightning.Decode(to)
	switch {
	case err != nil:
		return Refund{}, errInvoice.At("body", "/address")
	case invoice.Network != s.Network:
		return Refund{}, errInvoiceNetwork.At("body", "/address")
	case invoice.Msat != 0 && invoice.Msat != 1000*r.Net().Units():
		return Refund{}, errInvoiceAmount.Detailf("The invoice must be for exactly %s BTC.", r.Net()).At("body", "/address")
	case invoice.Expires().Sub(tx.Now()) < minInvoiceLife:
		return Refund{}, errInvoiceExpires.At("body", "/address")
	}
	own, err := lightning.IsOwn(ctx, tx, invoice.Hash)
	if err == nil && own {
		err = errOwnAddress.At("body", "/address")
	}
	return r, err
}
