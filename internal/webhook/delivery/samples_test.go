package delivery_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// library verifies a delivery with the npm package of Standard Webhooks. It has the same arguments as the samples.
const library = `import { createRequire } from "node:module";
const { Webhook } = createRequire(process.argv[2] + "/")("standardwebhooks");
const [, , , secret, id, timestamp, signature] = process.argv;
const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
try {
  const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
  new Webhook(secret).verify(Buffer.concat(chunks), headers);
} catch {
  process.exit(1);
}
`

// The documentation's verifiers and an independent library accept a delivery. They reject it if a byte of the body,
// the ID or the time was changed.
func TestVerifiersInOtherLanguagesAcceptDeliveries(t *testing.T) {
	testkit.NotQuick(t, "other languages")
	root, err := filepath.Abs("../../..")
	testkit.Check(t, err)
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	w := newWorld(t, d, dbtest.NewClock())
	r := newReceiver(t, w.clock)
	_, secret := w.endpoint(r.URL)
	w.emit("payroll.created", "prl_1", 1)
	w.drain()
	g := r.all()[0]
	id, at := g.header.Get(delivery.HeaderID), g.header.Get(delivery.HeaderTimestamp)
	signature := g.header.Get(delivery.HeaderSignature)

	scratch := t.TempDir()
	script := filepath.Join(scratch, "library.mjs")
	testkit.Check(t, os.WriteFile(script, []byte(library), 0o600))
	goSample := filepath.Join(scratch, "verify")
	out, err := exec.Command("go", "build", "-o", goSample, filepath.Join(root, "docs/samples/verify")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	modules := filepath.Join(root, ".tools/npm/webhooks")
	commands := map[string][]string{
		"Go":                     {goSample},
		"JavaScript":             {"node", filepath.Join(root, "docs/samples/verify.mjs")},
		"npm's standardwebhooks": {"node", script, modules},
		"Python":                 {"python3", filepath.Join(root, "docs/samples/verify.py")},
		"Java":                   {"java", filepath.Join(root, "docs/samples/Verify.java")},
	}
	for language, command := range commands {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Logf("%s: NOT TRIED, there is no %s on this machine", language, command[0])
			continue
		}
		if language == "npm's standardwebhooks" {
			if _, err := os.Stat(filepath.Join(modules, "node_modules/standardwebhooks")); err != nil {
				t.Errorf("npm's standardwebhooks is not installed; run tools/install.sh webhooks")
				continue
			}
		}
		for _, c := range []struct {
			what     string
			args     []string
			body     []byte
			accepted bool
		}{
			{"the delivery", []string{secret, id, at, signature}, g.body, true},
			{"among others", []string{secret, id, at, "v1,AAAA v2," + signature[3:] + " " + signature}, g.body, true},
			{"another body", []string{secret, id, at, signature}, bytes.Replace(g.body, []byte("1"), []byte("2"), 1), false},
			{"another id", []string{secret, "evt_other", at, signature}, g.body, false},
			{"another time", []string{secret, id, "1700000000", signature}, g.body, false},
			{"another secret", []string{delivery.NewSecret(), id, at, signature}, g.body, false},
		} {
			run := exec.Command(command[0], append(command[1:], c.args...)...)
			run.Stdin = bytes.NewReader(c.body)
			out, err := run.CombinedOutput()
			if accepted := err == nil; accepted != c.accepted {
				t.Errorf("%s: %s: accepted %v: %v %s", language, c.what, accepted, err, strings.TrimSpace(string(out)))
			}
		}
	}
}
