package travelrule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
)

// Hosting is who controls the keys of a wallet.
type Hosting string

// Hostings.
const (
	SelfHosted Hosting = "self_hosted" // the owner
	Hosted     Hosting = "vasp"        // a provider, such as an exchange
)

// EIP191 is the format of a signature of an EVM account; those of Bitcoin are in package bitcoin.
const EIP191 = "eip191"

// challengeLife is the time in which a text must be signed. Hardware wallets are not always at hand.
const challengeLife = time.Hour

const maxProvider = 100 // longest name of a provider, in characters

// Errors that a caller sees.
var (
	ErrNoWallet = apierr.New(apierr.Conflict, "invalid_state",
		"This destination is a bank account. Only wallets for crypto assets have a host.")
	ErrNoChallenge = apierr.New(apierr.Conflict, "invalid_state",
		"There is no text to sign, or its time is over. State again that the wallet is self-hosted to get a new text.")
	ErrSignature = apierr.New(apierr.Invalid, "signature_invalid",
		"The signature does not match the text and the address. Sign the whole text, unchanged, with the wallet that has "+
			"this address.")
)

// Wallet is what the owner of a destination states about its wallet. The zero Wallet is no statement.
type Wallet struct {
	Hosting   Hosting
	VASP      VASP // the provider of a hosted wallet: name and LEI
	Proof     *Proof
	Challenge *Challenge // to be signed, or nil
}

// Challenge is a text that the owner of a self-hosted wallet signs.
type Challenge struct {
	Message string    `json:"message"`
	Expires time.Time `json:"expires"`
}

// Proof is a signature that shows who controls a self-hosted wallet.
type Proof struct {
	Format    string    `json:"format"` // eip191, bip322 or bip137
	Address   string    `json:"address"`
	Message   string    `json:"message"`
	Signature string    `json:"signature"`
	At        time.Time `json:"at"`
}

// Provable reports whether the owner of a destination's wallet can sign a text with it. Lightning has no format that
// wallets share, so a statement is all there is.
func Provable(d destination.Destination) bool {
	return d.Rail == destination.RailBitcoin || d.Rail == destination.RailEVM
}

// Statement is a new statement about a wallet.
type Statement struct {
	Hosting           string
	VASPName, VASPLEI string // of a hosted wallet; the LEI is optional
}

func (t Statement) check() (w Wallet, err error) {
	var problems apierr.List
	w = Wallet{Hosting: Hosting(t.Hosting), VASP: VASP{
		Name: identity.Line(&problems, "/vasp_name", t.VASPName, 0, maxProvider),
		LEI:  strings.ToUpper(strings.TrimSpace(t.VASPLEI)),
	}}
	switch w.Hosting {
	case SelfHosted:
		if w.VASP != (VASP{}) {
			problems.Add("invalid_parameter", "/vasp_name", "A self-hosted wallet has no provider.")
		}
	case Hosted:
		if strings.TrimSpace(t.VASPName) == "" {
			problems.Add("missing_field", "/vasp_name", "Name the provider that hosts the wallet.")
		}
		if w.VASP.LEI != "" && !country.ValidLEI(w.VASP.LEI) {
			problems.Add("invalid_parameter", "/vasp_lei", "The value must be an LEI: 18 letters or digits and two check "+
				"digits.")
		}
	default:
		problems.Add("invalid_parameter", "/hosting", "The value is self_hosted or vasp.")
	}
	return w, problems.Err()
}

// Declare stores who hosts the wallet of a destination. Another statement than before ends the proof. For a self-hosted
// wallet without a proof, it returns a new text to sign, which replaces an earlier one. The caller must have resolved
// the destination for a principal that may change it.
func (s *Service) Declare(ctx context.Context, tx *db.Tx, by identity.Principal, d destination.Destination,
	t Statement) (Wallet, error) {
	if d.Kind != destination.Crypto {
		return Wallet{}, ErrNoWallet
	}
	w, err := t.check()
	if err != nil {
		return w, err
	}
	was, err := s.Wallet(ctx, tx, d)
	if err != nil {
		return w, err
	}
	same := was.Hosting == w.Hosting && was.VASP == w.VASP
	if same {
		w = was
	}
	if w.Hosting == SelfHosted && Provable(d) && w.Proof == nil {
		expires := tx.Now().Add(challengeLife).UTC().Truncate(time.Second)
		w.Challenge = &Challenge{Expires: expires, Message: fmt.Sprintf("I control the wallet with this address, and "+
			"receive payments to it.\nSigning this text moves no money.\n\nAddress: %s\nDestination: %s\nNonce: %s\n"+
			"Valid until: %s", d.Address, d.ID, tx.NewID("nce"), expires.Format(time.RFC3339))}
	}
	if err := s.put(ctx, tx, by, d, w); err != nil || same {
		return w, err
	}
	return w, changed(ctx, tx, by, d)
}

// Prove verifies the signature of the text of [Service.Declare] and stores it. A text is used once. It returns
// ErrNoChallenge without a valid text, and ErrSignature for any other signature.
func (s *Service) Prove(ctx context.Context, tx *db.Tx, by identity.Principal, d destination.Destination,
	signature string) (Wallet, error) {
	w, err := s.Wallet(ctx, tx, d)
	if err != nil {
		return w, err
	}
	if w.Challenge == nil || !tx.Now().Before(w.Challenge.Expires) {
		return w, ErrNoChallenge
	}
	format, err := s.verify(d, w.Challenge.Message, signature)
	if errors.Is(err, bitcoin.ErrSignature) || errors.Is(err, evm.ErrMessageSignature) {
		return w, ErrSignature.At("body", "/signature")
	}
	if err != nil {
		return w, err
	}
	w.Proof = &Proof{format, d.Address, w.Challenge.Message, strings.TrimSpace(signature), tx.Now()}
	w.Challenge = nil
	if err := s.put(ctx, tx, by, d, w); err != nil {
		return w, err
	}
	return w, changed(ctx, tx, by, d)
}

func (s *Service) verify(d destination.Destination, message, signature string) (format string, err error) {
	if d.Rail == destination.RailEVM {
		return EIP191, evm.VerifyMessage(d.Address, message, signature)
	}
	return bitcoin.VerifyMessage(d.Address, s.Network, message, signature)
}

// Wallet returns the statement about the wallet of a destination. It is zero if there is none, or if it was made for
// another address.
func (s *Service) Wallet(ctx context.Context, tx *db.Tx, d destination.Destination) (w Wallet, err error) {
	text, err := selectWallet(ctx, tx, d.OwnerID, d.ID, placeOf(d))
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &w)
	}
	return w, err
}

func (s *Service) put(ctx context.Context, tx *db.Tx, by identity.Principal, d destination.Destination,
	w Wallet) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return upsertWallet(ctx, tx, d.OwnerID, d.ID, placeOf(d), string(text), by.ID)
}

// placeOf returns a digest of the account of a destination, for which a statement counts.
func placeOf(d destination.Destination) string {
	place := d.Place()
	sum := sha256.Sum256([]byte(strings.Join(place[:], "\x00")))
	return hex.EncodeToString(sum[:16])
}

// changed releases what waits for a statement about the wallet of a destination.
func changed(ctx context.Context, tx *db.Tx, by identity.Principal, d destination.Destination) error {
	if strings.HasPrefix(d.OwnerID, "com_") {
		payee.Payable(tx, d.OwnerID, d.OwnerID)
		return nil
	}
	owner, err := payee.Owner(ctx, tx, by, d.OwnerID)
	if err != nil {
		return err
	}
	return payee.Moved(ctx, tx, by, owner, false, true)
}
