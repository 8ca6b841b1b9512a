package keysource_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/signer/keysource"
	"github.com/stipend/stipend/internal/testkit"
)

// hsm is a token of SoftHSM with a key of secp256k1 and one of another curve.
type hsm struct{ module, pinFile, uri string }

// softHSM creates a token, as an administrator does with a real device.
func softHSM(t *testing.T) hsm {
	t.Helper()
	modules := append(testkit.Must(filepath.Glob("/usr/lib/softhsm/libsofthsm2.so")),
		testkit.Must(filepath.Glob("/usr/lib/*/softhsm/libsofthsm2.so"))...)
	if len(modules) == 0 {
		t.Fatal("SoftHSM is missing; run tools/install.sh softhsm")
	}
	dir := t.TempDir()
	settings := filepath.Join(dir, "softhsm2.conf")
	write(t, settings, fmt.Sprintf("directories.tokendir = %s\nobjectstore.backend = file\nlog.level = ERROR\n", dir))
	t.Setenv("SOFTHSM2_CONF", settings)
	h := hsm{module: modules[0], pinFile: filepath.Join(dir, "pin")}
	write(t, h.pinFile, "correct pin\n")
	h.uri = h.key("stipend", "%01", h.pinFile)
	tool(t, "softhsm2-util", "--init-token", "--free", "--label", "stipend", "--pin", "correct pin", "--so-pin",
		"12345678")
	for i, key := range []string{"EC:secp256k1 hot", "EC:prime256v1 other"} {
		curve, label, _ := strings.Cut(key, " ")
		tool(t, "pkcs11-tool", "--module", h.module, "--token-label", "stipend", "--login", "--pin", "correct pin",
			"--keypairgen", "--key-type", curve, "--label", label, "--id", fmt.Sprintf("0%d", i+1))
	}
	return h
}

func (h hsm) key(token, id, pinFile string) string {
	return fmt.Sprintf("pkcs11:token=%s;id=%s?module-path=%s&pin-source=file:%s", token, id, h.module, pinFile)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// A device, key or PIN that is wrong is noticed at the start, and the PIN is in no message.
func TestWrongDevicesAreRefused(t *testing.T) {
	testkit.NotQuick(t, "SoftHSM")
	h := softHSM(t)
	wrong, open := filepath.Join(t.TempDir(), "wrong"), filepath.Join(t.TempDir(), "open")
	write(t, wrong, "incorrect pin")
	write(t, open, "correct pin")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, uri := range map[string]string{
		"another token": h.key("nobody", "%01", h.pinFile), "another key": h.key("stipend", "%03", h.pinFile),
		"another curve": h.key("stipend", "%02", h.pinFile), "a wrong PIN": h.key("stipend", "%01", wrong),
		"a PIN that others can read": h.key("stipend", "%01", open),
		"no module":                  strings.Replace(h.uri, h.module, "/does/not/exist.so", 1),
	} {
		_, err := keysource.Open(t.Context(), uri, nil)
		if err == nil {
			t.Errorf("%s was accepted", name)
		} else if strings.Contains(err.Error(), "correct pin") {
			t.Errorf("%s: the message has the PIN: %v", name, err)
		}
	}

	// A key that is exchanged in the running device signs nothing.
	source := testkit.Must(keysource.Open(t.Context(), h.uri, nil))
	for _, object := range []string{"privkey", "pubkey"} {
		tool(t, "pkcs11-tool", "--module", h.module, "--token-label", "stipend", "--login", "--pin", "correct pin",
			"--delete-object", "--type", object, "--label", "hot")
	}
	if _, err := source.Sign(t.Context(), make([]byte, 32)); err == nil {
		t.Error("a key that was deleted signs")
	}
	tool(t, "pkcs11-tool", "--module", h.module, "--token-label", "stipend", "--login", "--pin", "correct pin",
		"--keypairgen", "--key-type", "EC:secp256k1", "--label", "hot", "--id", "01")
	_, err := source.Sign(t.Context(), make([]byte, 32))
	if err == nil || !strings.Contains(err.Error(), "not by the key") {
		t.Errorf("another key signs: %v", err)
	}
}
