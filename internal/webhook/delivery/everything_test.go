package delivery_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/webhook/delivery"
)

// everything contains all deliveries of this package's tests. Independent libraries verify each of them.
var everything received

type received struct {
	mu         sync.Mutex
	secrets    map[string]bool
	deliveries []sample
}

type sample struct {
	ID        string `json:"webhook-id"`
	Timestamp string `json:"webhook-timestamp"`
	Signature string `json:"webhook-signature"`
	Body      string `json:"body"`
	Secret    string `json:"secret"` // secret with which the Go library accepts the delivery
}

func (r *received) secret(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secrets == nil {
		r.secrets = map[string]bool{}
	}
	r.secrets[s] = true
}

func (r *received) add(g got) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries = append(r.deliveries, sample{
		ID: g.header.Get(delivery.HeaderID), Timestamp: g.header.Get(delivery.HeaderTimestamp),
		Signature: g.header.Get(delivery.HeaderSignature), Body: string(g.body),
	})
}

// verify verifies each delivery with the Go and npm libraries. It ignores the age of a delivery, because the tests
// take long.
func (r *received) verify() error {
	if len(r.deliveries) == 0 {
		return nil
	}
	var verifiers []*standardwebhooks.Webhook
	secrets := slices.Collect(maps.Keys(r.secrets))
	for _, s := range secrets {
		verifier, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			return err
		}
		verifiers = append(verifiers, verifier)
	}
	for i := range r.deliveries {
		d := &r.deliveries[i]
		header := map[string][]string{
			delivery.HeaderID: {d.ID}, delivery.HeaderTimestamp: {d.Timestamp}, delivery.HeaderSignature: {d.Signature},
		}
		by := slices.IndexFunc(verifiers, func(v *standardwebhooks.Webhook) bool {
			return v.VerifyIgnoringTimestamp([]byte(d.Body), header) == nil
		})
		if by < 0 {
			return fmt.Errorf("the Go library rejects it with every secret: %+v", *d)
		}
		d.Secret = secrets[by]
		// Try this verifier and secret first for the next delivery, which probably has the same ones.
		verifiers[0], verifiers[by], secrets[0], secrets[by] = verifiers[by], verifiers[0], secrets[by], secrets[0]
	}
	scratch, err := os.MkdirTemp("", "deliveries-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	text, err := json.Marshal(r.deliveries)
	if err != nil {
		return err
	}
	data, script := filepath.Join(scratch, "deliveries.json"), filepath.Join(scratch, "verify.mjs")
	modules, err := filepath.Abs("../../../.tools/npm/webhooks")
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{data: text, script: []byte(verifyAll)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	out, err := exec.Command("node", script, modules, data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the npm library does not accept all (tools/install.sh webhooks installs it): %w %.500s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), strconv.Itoa(len(r.deliveries)); got != want {
		return fmt.Errorf("the npm library accepted %s of %s", got, want)
	}
	return nil
}

const verifyAll = `import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const { Webhook } = createRequire(process.argv[2] + "/")("standardwebhooks");
let accepted = 0;
for (const d of JSON.parse(readFileSync(process.argv[3], "utf8"))) {
  Date.now = () => Number(d["webhook-timestamp"]) * 1000;
  new Webhook(d.secret).verify(d.body, d);
  accepted++;
}
console.log(accepted);
`

func TestMain(m *testing.M) {
	code := m.Run()
	if !testing.Short() { // the npm library is not installed for a quick run
		if err := everything.verify(); err != nil {
			fmt.Println("FAIL:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
