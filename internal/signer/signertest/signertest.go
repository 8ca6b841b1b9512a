// Package signertest starts signers for tests.
package signertest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/testkit"
)

// Policy permits everything that tests pay, from the first time that a destination is named.
const Policy = `{
	"assets": {
		"BTC": {"transaction": "1000", "hour": "1000", "day": "1000", "approval_above": "1000"},
		"ETH": {"transaction": "1000", "hour": "1000", "day": "1000", "approval_above": "1000"},
		"USDC": {"transaction": "1000000", "hour": "1000000", "day": "1000000", "approval_above": "1000000"},
		"USDT": {"transaction": "1000000", "hour": "1000000", "day": "1000000", "approval_above": "1000000"}
	},
	"bitcoin": {"network": "regtest", "script_types": ["p2wpkh", "p2wsh", "p2tr", "p2pkh", "p2sh"], "max_fee": "0.1",
		"max_fee_rate": 1000},
	"evm": {"base": {"max_fee": "1"}},
	"destinations": {"known_for": "0s", "allowed": []},
	"approvers": []
}`

// Signer is a signer behind a Unix socket.
type Signer struct {
	Address string // for signer.NewClient
	Client  *signer.Client
	Policy  string // read by Start
	Alarms  *bytes.Buffer
	Stop    func() // stops the signer as a crash does
	Start   func() // starts it again, with the same log
}

// listener remembers its connections, which a crash closes.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

// crash closes the listener and its connections.
func (l *listener) crash() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// Start starts a signer with the keys, a policy, and the clock. It stops with the test.
func Start(t testing.TB, bitcoinKey, evmKey, policy string, now func() time.Time) *Signer {
	t.Helper()
	dir := t.TempDir()
	s := &Signer{Policy: policy, Alarms: &bytes.Buffer{}, Address: "unix:" + filepath.Join(dir, "s")}
	s.Client = testkit.Must(signer.NewClient(s.Address, signer.TLSFiles{}))
	s.Start = func() {
		o := signer.Options{Policy: testkit.Must(signer.ParsePolicy([]byte(s.Policy))),
			Log:   testkit.Must(signer.OpenLog(filepath.Join(dir, "log"))),
			Alarm: slog.New(slog.NewTextHandler(s.Alarms, nil)), Now: now}
		if bitcoinKey != "" {
			o.Bitcoin = testkit.Must(signer.BitcoinWallet(bitcoinKey, "regtest"))
		}
		if evmKey != "" {
			o.EVM = testkit.Must(signer.EVMWallet(evmKey))
		}
		service := testkit.Must(signer.New(o))
		l := &listener{Listener: testkit.Must(signer.Listen(s.Address, signer.TLSFiles{}))}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = service.Serve(t.Context(), l)
		}()
		s.Stop = func() {
			l.crash()
			<-done
			_ = o.Log.Close()
			s.Stop = func() {}
		}
	}
	s.Start()
	t.Cleanup(func() { s.Stop() })
	return s
}

// Passkey is the passkey of a member of staff.
type Passkey struct {
	name string
	key  *ecdsa.PrivateKey
}

// NewPasskey returns a new passkey of a person.
func NewPasskey(name string) Passkey {
	return Passkey{name, testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
}

const origin, party = "https://pay.example.com", "pay.example.com"

// Approver returns the entry of the policy.
func (p Passkey) Approver() string {
	point := testkit.Must(p.key.PublicKey.Bytes())
	cose := slices.Concat([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, point[1:33], []byte{0x22, 0x58, 32},
		point[33:])
	return string(testkit.Must(json.Marshal(signer.Approver{Name: p.name, Credential: "cred-" + p.name, PublicKey: cose,
		Origin: origin, RPID: party})))
}

// Approve returns an approval as a browser makes it.
func (p Passkey) Approve(payment signer.Payment, expires time.Time) signer.Approval {
	client := testkit.Must(json.Marshal(map[string]any{"type": "webauthn.get", "origin": origin, "crossOrigin": false,
		"challenge": base64.RawURLEncoding.EncodeToString(signer.Challenge(payment, expires))}))
	id := sha256.Sum256([]byte(party))
	data := append(id[:], 5, 0, 0, 0, 1)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(slices.Concat(data, hash[:]))
	return signer.Approval{Payment: payment, Expires: expires, Credential: "cred-" + p.name, AuthenticatorData: data,
		ClientData: client, Signature: testkit.Must(ecdsa.SignASN1(rand.Reader, p.key, digest[:]))}
}
