package destination

import (
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// A payee can give an extended public key or an output descriptor of a Bitcoin wallet instead of an address. Each
// payment then goes to the next address of the wallet, so that one payment's address does not reveal other payments.
// The key or descriptor is encrypted. The wallet's first address is shown, so that the payee can compare it with the
// wallet.

// GapLimit is the maximum number of addresses that may follow a wallet's last address with a confirmed payment.
// Wallets do not search for payments beyond it.
const GapLimit = 20

// ErrGap means that a payment must wait until another payment to the same wallet is confirmed.
var ErrGap = errors.New("destination: too many addresses of this wallet have not received a payment yet")

// DescriptorKey is the member of distribution_data that contains an extended public key or an output descriptor.
const DescriptorKey = "descriptor"

// maxDescriptor is longer than any descriptor with one key.
const maxDescriptor = 400

// Fresh reports whether each payment to the destination goes to a new address of a wallet. The Address field is then
// the wallet's first address.
func (d Destination) Fresh() bool { return d.Kind == Crypto && d.Sealed != "" }

// AddressOwner identifies the payment for which an address is used.
type AddressOwner struct{ CompanyID, PayrollID, PaymentID string }

// FirstAddress returns the first address of the wallet of an extended public key or output descriptor. Payees compare
// it with their wallet before the destination is stored.
func (s Setup) FirstAddress(descriptor string) (string, error) {
	r, err := bitcoin.ParseReceiver(descriptor, s.BitcoinNetwork)
	if err != nil {
		return "", err
	}
	return r.Address(0)
}

// ForPayment returns destinations with the addresses to use for one payment. A destination for which
// [Destination.Fresh] is true gets the next address of its wallet; repeated calls for the same payment return the
// same address. ForPayment returns ErrGap if GapLimit does not permit another address now. If transactions take an
// address of a wallet concurrently, all but one fail and run again.
func (s Setup) ForPayment(ctx context.Context, tx *db.Tx, of AddressOwner, to []Destination) ([]Destination, error) {
	to = slices.Clone(to)
	for i := range to {
		d := &to[i]
		if !d.Fresh() {
			continue
		}
		r, err := s.receiver(*d)
		if err != nil {
			return nil, err
		}
		if d.Address, err = s.assign(ctx, tx, of, d.ID, r); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// ReturnAddresses frees the addresses of a payment that none of its outputs used, so that payments that are never
// sent do not use up GapLimit.
func ReturnAddresses(ctx context.Context, tx *db.Tx, of AddressOwner) error {
	return deleteUnusedAddresses(ctx, tx, of)
}

// receiver returns the wallet of a destination for which [Destination.Fresh] is true.
func (s Setup) receiver(d Destination) (*bitcoin.Receiver, error) {
	if s.Sealer == nil {
		return nil, errors.New("destination: Setup.Sealer is required")
	}
	text, err := s.Sealer.Open(sealedAt(d), d.Sealed)
	if err != nil {
		return nil, err
	}
	return bitcoin.ParseReceiver(string(text), s.BitcoinNetwork)
}

// assign returns the address of a payment at a destination. If the payment has none, assign assigns the next address
// of the wallet.
func (s Setup) assign(ctx context.Context, tx *db.Tx, of AddressOwner, id string, r *bitcoin.Receiver) (string, error) {
	address, err := selectAddress(ctx, tx, of, id, r.ID())
	if err != nil || address != "" {
		return address, err
	}
	next, paid, err := lastPositions(ctx, tx, r.ID())
	if err != nil {
		return "", err
	}
	if next++; next-paid > GapLimit {
		return "", ErrGap
	}
	if address, err = r.Address(uint32(next)); err != nil {
		return "", err
	}
	own, err := chain.IsOwnAddress(ctx, tx, s.Chain, address)
	if err != nil {
		return "", err
	}
	if own {
		return "", errors.New("destination: an address of a payee's wallet is one of the service itself")
	}
	return address, insertAddress(ctx, tx, of, id, r.ID(), next, address)
}

// seal encrypts the plaintext of a destination: bank data, or the descriptor of a wallet. If clean is nil, nothing is
// stored.
func (s Setup) seal(d *Destination, clean []byte) (err error) {
	if d.Sealed = ""; clean != nil {
		d.Sealed, err = s.Sealer.Seal(sealedAt(*d), clean)
	}
	return err
}

func sealedAt(d Destination) identity.SealContext {
	return identity.SealContext{Table: "destinations", Column: "sealed", Row: d.OwnerID + "/" + d.ID}
}
