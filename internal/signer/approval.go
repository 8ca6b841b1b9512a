package signer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// Approval is one person's signature, by a passkey, that permits one payment once. It is a WebAuthn assertion, whose
// challenge is the hash of the payment and the time.
type Approval struct {
	Payment    Payment   `json:"payment"`
	Expires    time.Time `json:"expires"`
	Credential string    `json:"credential"` // ID of the passkey, base64url

	AuthenticatorData []byte `json:"authenticator_data"`
	ClientData        []byte `json:"client_data"`
	Signature         []byte `json:"signature"`
}

// ApprovalLife is the longest time for which an approval is valid.
const ApprovalLife = 24 * time.Hour

// Challenge returns the challenge that the passkey signs to approve a payment until a time.
func Challenge(p Payment, expires time.Time) []byte {
	text, err := json.Marshal(struct {
		What    string    `json:"what"`
		Payment Payment   `json:"payment"`
		Expires time.Time `json:"expires"`
	}{"stipend payment approval", p, expires.UTC().Truncate(time.Second)})
	if err != nil {
		panic(err) // a payment has only texts and numbers
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// Flags of the authenticator data.
const (
	userPresent  = 1 << 0
	userVerified = 1 << 2
)

// by reports whether the approver signed the approval (WebAuthn level 3, section 7.2).
func (a Approval) by(who Approver) bool {
	var client struct {
		Type        string `json:"type"`
		Challenge   string `json:"challenge"`
		Origin      string `json:"origin"`
		CrossOrigin bool   `json:"crossOrigin"`
	}
	if json.Unmarshal(a.ClientData, &client) != nil || client.Type != "webauthn.get" || client.Origin != who.Origin ||
		client.CrossOrigin ||
		client.Challenge != base64.RawURLEncoding.EncodeToString(Challenge(a.Payment, a.Expires)) {
		return false
	}
	party := sha256.Sum256([]byte(who.RPID))
	const wants = userPresent | userVerified
	if len(a.AuthenticatorData) < 37 || !bytes.Equal(a.AuthenticatorData[:32], party[:]) ||
		a.AuthenticatorData[32]&wants != wants {
		return false
	}
	key, err := webauthncose.ParsePublicKey(who.PublicKey)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(a.ClientData)
	ok, err := webauthncose.VerifySignature(key, slices.Concat(a.AuthenticatorData, sum[:]), a.Signature)
	return err == nil && ok
}

// id identifies an approval by its payment, expiry and credential. Another signature of the same approval has the same
// ID.
func (a Approval) id() string {
	sum := sha256.Sum256(append(Challenge(a.Payment, a.Expires), a.Credential...))
	return hex.EncodeToString(sum[:])
}

// approved returns the valid approvals of a payment, and by how many different people they are. An approval that was
// used is valid only for a transaction with the same inputs, which replaces the first one. Without inputs it is a
// check. before has the approvals that other payments of the same transaction used: these are not valid again.
func (s *Service) approved(p Payment, approvals []Approval, before []string, spends string, now time.Time) (
	used []string, people int,
) {
	by := map[string]bool{}
	for _, a := range approvals {
		first, again := s.past.approved[a.id()]
		i := slices.IndexFunc(s.o.Policy.Approvers, func(w Approver) bool { return w.Credential == a.Credential })
		switch {
		case i < 0 || a.Payment != p || p.Reference == "" || again && first != spends,
			slices.Contains(before, a.id()):
		case !again && (!now.Before(a.Expires) || a.Expires.Sub(now) > ApprovalLife):
		case a.by(s.o.Policy.Approvers[i]) && !by[s.o.Policy.Approvers[i].Name]:
			by[s.o.Policy.Approvers[i].Name] = true
			used = append(used, a.id())
		}
	}
	return used, len(by)
}
