package keysource_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/stipend/stipend/internal/signer/keysource"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// KMS that refuses is not asked again, and KMS that is overloaded is. A key of another kind and an exchanged key are
// refused.
func TestKMSThatFails(t *testing.T) {
	s := signertest.NewKMS(t, func() time.Time { return start })
	source := testkit.Must(keysource.Open(t.Context(), s.URI(), func() time.Time { return start }))
	open := func() error {
		_, err := keysource.Open(t.Context(), s.URI(), func() time.Time { return start })
		return err
	}
	sign := func() error {
		_, err := source.Sign(context.Background(), make([]byte, 32))
		return err
	}
	for _, c := range []struct {
		failures []string
		requests int
		works    bool
	}{
		{[]string{"ThrottlingException", "KMSInternalException"}, 3, true},
		{[]string{"KMSInternalException", "KMSInternalException", "KMSInternalException"}, 3, false},
		{[]string{"AccessDeniedException"}, 1, false},
		{[]string{"KMSInvalidStateException"}, 1, false},
	} {
		s.Requests, s.Failures = 0, slices.Clone(c.failures)
		if err := sign(); (err == nil) != c.works || s.Requests != c.requests {
			t.Errorf("%v: %d requests, %v", c.failures, s.Requests, err)
		}
	}
	s.Spec = "ECC_NIST_P256"
	if err := open(); err == nil {
		t.Error("a key of another curve was accepted")
	}
	s.Spec = "ECC_SECG_P256K1"
	s.Key = testkit.Must(secp256k1.GeneratePrivateKey())
	if err := sign(); err == nil || !strings.Contains(err.Error(), "not by the key") {
		t.Errorf("another key signs: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	if err := open(); err == nil || !strings.Contains(err.Error(), "InvalidSignature") ||
		strings.Contains(err.Error(), signertest.KMSSecret) {
		t.Errorf("a wrong secret: %v", err)
	}
}
