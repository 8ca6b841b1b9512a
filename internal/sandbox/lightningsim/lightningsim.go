// Package lightningsim simulates, in the database of a sandbox, a Lightning node and the wallets of payees. All Nodes
// of a database are the same node. There is no network: [Node.Settle] acts as the payer of the node's invoices, and
// payments always arrive. The node can pay its own invoices and invoices of payees' wallets; every Lightning address
// has a wallet (payer.go).
package lightningsim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
)

const (
	keySetting = "simulated_lightning_key"
	// pollEvery is the time between two checks for settled invoices.
	pollEvery = 250 * time.Millisecond
	// maxSettled is the maximum number of settled invoices that are read at once.
	maxSettled = 100
)

// Errors of payments.
var (
	ErrNoInvoice = errors.New("lightningsim: there is no such invoice, or it was paid, canceled or has expired")
	ErrAmount    = errors.New("lightningsim: a payment is at least the amount of the invoice")
)

// Node is the simulated node.
type Node struct {
	db      *db.DB
	network string

	mu  sync.Mutex
	key *btcec.PrivateKey // nil until it is first needed
}

var _ lightning.Node = (*Node)(nil)

// New returns the node of a sandbox. network is the network of its invoices, such as regtest.
func New(d *db.DB, network string) *Node { return &Node{db: d, network: network} }

// signer returns the node's key, which the first call creates.
func (n *Node) signer(ctx context.Context) (*btcec.PrivateKey, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.key != nil {
		return n.key, nil
	}
	err := n.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		text, err := db.Setting(ctx, tx, keySetting)
		if err != nil {
			return err
		}
		if text == "" {
			fresh, err := btcec.NewPrivateKey()
			if err != nil {
				return err
			}
			n.key = fresh
			return db.SetSetting(ctx, tx, keySetting, hex.EncodeToString(fresh.Serialize()))
		}
		raw, err := hex.DecodeString(text)
		if err == nil {
			n.key, _ = btcec.PrivKeyFromBytes(raw)
		}
		return err
	})
	if err != nil {
		n.key = nil
	}
	return n.key, err
}

// ID implements [lightning.Node].
func (n *Node) ID(ctx context.Context) (string, error) {
	key, err := n.signer(ctx)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(key.PubKey().SerializeCompressed()), nil
}

// Info implements [lightning.Node].
func (n *Node) Info(ctx context.Context) (lightning.Info, error) {
	id, err := n.ID(ctx)
	return lightning.Info{ID: id, Alias: "sandbox", Version: "simulated", Network: n.network, Synced: true}, err
}

// Balance implements [lightning.Node].
func (n *Node) Balance(ctx context.Context) (sats int64, err error) {
	err = n.db.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		msat, err := balance(ctx, tx)
		sats = msat / 1000
		return err
	})
	return sats, err
}

// AddInvoice implements [lightning.Node].
func (n *Node) AddInvoice(ctx context.Context, in lightning.NewInvoice) (request string, err error) {
	return n.invoice(ctx, "", in)
}

// invoice creates an invoice of the node or of a wallet.
func (n *Node) invoice(ctx context.Context, wallet string, in lightning.NewInvoice) (request string, err error) {
	key, err := n.signer(ctx)
	if err != nil {
		return "", err
	}
	if wallet != "" {
		if key, err = btcec.NewPrivateKey(); err != nil {
			return "", err
		}
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never returns an error
	err = n.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		made, err := find(ctx, tx, in.Hash())
		if err == nil {
			request = made.PaymentRequest
			return nil
		}
		if !errors.Is(err, lightning.ErrUnknown) {
			return err
		}
		created := tx.Now().Truncate(time.Second)
		if request, err = lightning.Encode(key, lightning.Request{
			Network: n.network, Msat: in.Amount * 1000, Hash: in.Hash(), Created: created, Expiry: in.Expiry, Memo: in.Memo,
		}, secret); err != nil {
			return err
		}
		return insert(ctx, tx, in, wallet, request, created.Add(in.Expiry))
	})
	return request, err
}

// Lookup implements [lightning.Node].
func (n *Node) Lookup(ctx context.Context, h lightning.Hash) (found lightning.NodeInvoice, err error) {
	err = n.db.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		found, err = find(ctx, tx, h)
		return err
	})
	return found, err
}

// CancelInvoice implements [lightning.Node].
func (n *Node) CancelInvoice(ctx context.Context, h lightning.Hash) error {
	return n.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if canceled, err := cancel(ctx, tx, h); err != nil || canceled {
			return err
		}
		i, err := find(ctx, tx, h)
		if err == nil && i.State == lightning.NodeSettled {
			err = lightning.ErrSettled
		}
		return err
	})
}

// Settle pays an invoice of the node with an amount in millisatoshis; 0 means the amount of the invoice. Like LND,
// the node accepts a larger amount than the invoice's, but not a smaller one.
func (n *Node) Settle(ctx context.Context, request string, msat int64) error {
	r, err := lightning.Decode(request)
	if err != nil {
		return err
	}
	if msat == 0 {
		msat = r.Msat
	}
	if msat < r.Msat {
		return ErrAmount
	}
	n.mu.Lock() // settles this process's invoices one after the other
	defer n.mu.Unlock()
	return n.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		settled, err := settle(ctx, tx, r.Hash, msat)
		if err == nil && !settled {
			err = ErrNoInvoice
		}
		return err
	})
}

// Subscribe implements [lightning.Node].
func (n *Node) Subscribe(ctx context.Context, after uint64, f func(lightning.NodeInvoice) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for first := after == 0; ; first = false {
		var some []lightning.NodeInvoice
		if err := n.db.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			if first {
				after, err = lastSettled(ctx, tx)
				return err
			}
			some, err = settledAfter(ctx, tx, after)
			return err
		}); err != nil {
			return err
		}
		for _, i := range some {
			if err := f(i); err != nil {
				return err
			}
			after = i.SettleIndex
		}
		if len(some) == maxSettled {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
