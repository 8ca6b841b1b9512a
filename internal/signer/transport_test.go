package signer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// authority is a certificate authority of a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir(), key: testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}
	a.file = a.write("ca", "CERTIFICATE", testkit.Must(x509.CreateCertificate(rand.Reader, a.cert, a.cert,
		a.key.Public(), a.key)))
	return a
}

func (a *authority) write(name, kind string, der []byte) string {
	file := filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		panic(err)
	}
	return file
}

// issue returns the files of one side, which trusts the authority ca.
func (a *authority) issue(name string, ca *authority) signer.TLSFiles {
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	cert := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	return signer.TLSFiles{
		Cert: a.write(name, "CERTIFICATE", testkit.Must(x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(),
			a.key))),
		Key: a.write(name+".key", "PRIVATE KEY", testkit.Must(x509.MarshalPKCS8PrivateKey(key))),
		CA:  ca.file,
	}
}

// Over a network, both sides must have a certificate of the authority that the other side trusts.
func TestASignerOnANetworkNeedsCertificatesOfBothSides(t *testing.T) {
	own, foreign := newAuthority(t), newAuthority(t)
	if _, err := signer.Listen("127.0.0.1:0", signer.TLSFiles{}); err == nil {
		t.Error("it listens without certificates")
	}
	l := testkit.Must(signer.Listen("127.0.0.1:0", own.issue("signer", own)))
	log := testkit.Must(signer.OpenLog(filepath.Join(t.TempDir(), "log")))
	s := testkit.Must(signer.New(signer.Options{
		Policy: testkit.Must(signer.ParsePolicy([]byte(signertest.Policy))), Log: log,
		EVM: testkit.Must(signer.EVMWallet(testkit.Must(evm.MasterFromSeed(make([]byte, 32))))), Now: time.Now,
		Alarm: slog.New(slog.DiscardHandler),
	}))
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	for _, c := range []struct {
		name  string
		files signer.TLSFiles
		fine  bool
	}{
		{"of the authority", own.issue("service", own), true},
		{"of another authority", foreign.issue("stranger", own), false},
		{"of a service that trusts another signer", own.issue("strict", foreign), false},
	} {
		client := testkit.Must(signer.NewClient(l.Addr().String(), c.files))
		if i, err := client.Info(t.Context()); (err == nil) != c.fine || c.fine && i.EVMXPub == "" {
			t.Errorf("a certificate %s: %+v, %v", c.name, i, err)
		}
	}
	_ = l.Close()
	if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	_ = log.Close()
}

func TestAKeyFileIsReadByItsPassphraseOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	keys := signer.KeyFile{Network: "regtest", EVM: testkit.Must(evm.MasterFromSeed(make([]byte, 32)))}
	passphrase := []byte("correct horse battery")
	if err := keys.Create(path, []byte("short")); err == nil {
		t.Error("a short passphrase is accepted")
	}
	testkit.Check(t, keys.Create(path, passphrase))
	if err := keys.Create(path, passphrase); err == nil {
		t.Error("a file of keys is overwritten")
	}
	if got, err := signer.OpenKeyFile(path, passphrase); err != nil || got != keys {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := signer.OpenKeyFile(path, []byte("correct horse batterz")); !errors.Is(err, signer.ErrPassphrase) {
		t.Errorf("another passphrase: %v", err)
	}
	testkit.Check(t, os.Chmod(path, 0o440))
	if _, err := signer.OpenKeyFile(path, passphrase); err == nil {
		t.Error("a file that others can read is accepted")
	}
}
