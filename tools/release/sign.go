package main

import (
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
)

// sign returns the minisign signature of the checksums.
func (r Release) sign(sums []byte) ([]byte, error) {
	text := []byte(r.Key)
	if !strings.Contains(r.Key, "\n") {
		var err error
		if text, err = os.ReadFile(r.Key); err != nil {
			return nil, fmt.Errorf("read the key: %w", err)
		}
	}
	var key minisign.PrivateKey
	var err error
	if minisign.IsEncrypted(text) {
		key, err = minisign.DecryptKey(r.Password, text)
	} else {
		err = key.UnmarshalText(text)
	}
	if err != nil {
		return nil, fmt.Errorf("STIPEND_RELEASE_KEY and STIPEND_RELEASE_PASSWORD: %w", err)
	}
	return minisign.SignWithComments(key, sums, "stipend "+r.Version+" commit "+r.Commit,
		"signature of SHA256SUMS of Stipend "+r.Version), nil
}
