package lightningsim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	rail "github.com/stipend/stipend/internal/payout/lightning"
)

// Funds is the initial balance of the node's channels, in satoshis.
const Funds = 1_000_000_000

// Parts before the @ of Lightning addresses that behave in a special way.
const (
	UserNoRoute = "no-route" // there is no route to the wallet
	UserOffline = "offline"  // the server does not respond
	UserRefuses = "refuses"  // the server rejects the payment
	UserLost    = "lost"     // the payment is made, but the node's response is lost
)

const (
	walletExpiry = time.Hour
	feeMsat      = 1000
)

var (
	_ lightning.Payer = (*Node)(nil)
	_ rail.Resolver   = (*Node)(nil)
)

// Spendable implements [lightning.Payer].
func (n *Node) Spendable(ctx context.Context) (int64, error) { return n.Balance(ctx) }

// Invoice resolves a Lightning address: the wallet of the address creates an invoice.
func (n *Node) Invoice(ctx context.Context, address string, sats int64) (string, error) {
	switch user, _, _ := strings.Cut(address, "@"); user {
	case UserOffline:
		return "", errors.New("lightningsim: the server does not answer")
	case UserRefuses:
		return "", &rail.Refusal{Reason: rail.ReasonRefused, Detail: "it accepts no payments"}
	}
	return n.WalletInvoice(ctx, address, sats, walletExpiry)
}

// WalletInvoice creates an invoice of the wallet of a Lightning address. The amount is in satoshis; 0 creates an
// invoice without an amount.
func (n *Node) WalletInvoice(ctx context.Context, address string, sats int64, expiry time.Duration) (string, error) {
	in := lightning.NewInvoice{Amount: sats, Expiry: expiry, Memo: "Payment to " + address}
	_, _ = rand.Read(in.Preimage[:]) // never returns an error
	return n.invoice(ctx, address, in)
}

// Pay implements [lightning.Payer].
func (n *Node) Pay(ctx context.Context, in lightning.PaymentParams) (lightning.Payment, error) {
	r, err := lightning.Decode(in.Request)
	if err != nil {
		return lightning.Payment{}, err
	}
	p := lightning.Payment{Hash: r.Hash, Msat: r.Msat, FeeMsat: feeMsat}
	if p.Msat == 0 {
		p.Msat = 1000 * in.Amount
	}
	wallet := ""
	n.mu.Lock() // settles this process's invoices one after the other
	defer n.mu.Unlock()
	err = n.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		switch before, err := payment(ctx, tx, r.Hash); {
		case err == nil && before.State == lightning.PaymentSucceeded:
			return &lightning.Error{Code: 6, Message: "invoice is already paid"}
		case err != nil && !errors.Is(err, lightning.ErrNoPayment):
			return err
		case !tx.Now().Before(r.Expires()):
			return &lightning.Error{Code: 2, Message: fmt.Sprintf("invoice expired. Valid until %s", r.Expires())}
		}
		var preimage string
		if preimage, wallet, err = secretOf(ctx, tx, r.Hash); err != nil && !errors.Is(err, db.ErrNoRows) {
			return err
		}
		user, _, _ := strings.Cut(wallet, "@")
		settled := false
		if preimage != "" && user != UserNoRoute {
			if settled, err = settle(ctx, tx, r.Hash, p.Msat); err != nil {
				return err
			}
		}
		if p.State, p.Preimage = lightning.PaymentSucceeded, preimage; !settled {
			p.State, p.Preimage, p.FeeMsat, p.Failure = lightning.PaymentFailed, "", 0, lightning.FailureNoRoute
		}
		return insertPayment(ctx, tx, p)
	})
	if user, _, _ := strings.Cut(wallet, "@"); err == nil && user == UserLost {
		return lightning.Payment{}, errors.New("lightningsim: the connection was reset")
	}
	return p, err
}

// TrackPayment implements [lightning.Payer].
func (n *Node) TrackPayment(ctx context.Context, h lightning.Hash) (p lightning.Payment, err error) {
	err = n.db.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		p, err = payment(ctx, tx, h)
		return err
	})
	return p, err
}
