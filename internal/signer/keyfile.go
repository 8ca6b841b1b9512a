package signer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
)

// KeyFile has the private account keys of the hot wallets. On the disk it is encrypted with a passphrase (age, scrypt).
type KeyFile struct {
	Network string `json:"network"`           // of the Bitcoin key
	Bitcoin string `json:"bitcoin,omitempty"` // extended private key
	EVM     string `json:"evm,omitempty"`     // extended private key
}

// ErrPassphrase is returned for a passphrase that does not decrypt a key file.
var ErrPassphrase = errors.New("signer: the passphrase does not decrypt the key file")

// minPassphrase is the length of the shortest passphrase for new files.
const minPassphrase = 16

// workFactor is the logarithm of the cost of scrypt: about a second for each guess of a passphrase.
const workFactor = 18

// Create writes the keys to a new file that only its owner can read.
func (k KeyFile) Create(path string, passphrase []byte) error {
	if len(passphrase) < minPassphrase {
		return fmt.Errorf("signer: the passphrase needs at least %d characters", minPassphrase)
	}
	recipient, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return err
	}
	recipient.SetWorkFactor(workFactor)
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipient)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = file.Write(sealed.Bytes())
	return errors.Join(err, file.Sync(), file.Close())
}

// OpenKeyFile decrypts a file of keys. It refuses a file that others than its owner can read.
func OpenKeyFile(path string, passphrase []byte) (k KeyFile, err error) {
	sealed, err := ReadSecretFile(path)
	if err != nil {
		return k, err
	}
	identity, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return k, ErrPassphrase
	}
	identity.SetMaxWorkFactor(workFactor + 2)
	r, err := age.Decrypt(bytes.NewReader(sealed), identity)
	if err != nil {
		return k, ErrPassphrase
	}
	text, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err != nil {
		return k, err
	}
	defer clear(text)
	if json.Unmarshal(text, &k) != nil {
		return k, errors.New("signer: the key file has an unknown format")
	}
	return k, nil
}

// ReadSecretFile reads a file with a secret. It refuses a file that others than its owner can read.
func ReadSecretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("signer: others can read %s; run chmod go-rwx on it", path)
	}
	return os.ReadFile(path)
}

// Wallets returns the wallets of the keys, nil for those that the file does not have.
func (k KeyFile) Wallets() (b *Wallet[*bitcoin.Deriver], e *Wallet[*evm.Deriver], err error) {
	if k.Bitcoin != "" {
		if b, err = BitcoinWallet(k.Bitcoin, k.Network); err != nil {
			return nil, nil, err
		}
	}
	if k.EVM != "" {
		if e, err = EVMWallet(k.EVM); err != nil {
			return nil, nil, err
		}
	}
	return b, e, nil
}
