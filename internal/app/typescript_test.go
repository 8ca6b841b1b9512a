package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// A program that uses openapi-fetch compiles with the types that openapi-typescript generates from the contract, and
// the service answers its requests.
func TestTypeScriptSample(t *testing.T) {
	testkit.NotQuick(t, "node")
	t.Parallel()
	root, err := filepath.Abs("../..")
	testkit.Check(t, err)
	modules, dir := filepath.Join(root, ".tools/contract/node_modules"), t.TempDir()
	if _, err := os.Stat(filepath.Join(modules, "openapi-fetch")); err != nil {
		t.Fatal("npm's openapi-fetch is not installed; run tools/install.sh contract")
	}
	testkit.Check(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	sample, err := os.ReadFile(filepath.Join(root, "docs/samples/ts/payroll.mts"))
	testkit.Check(t, err)
	run := func(program string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run("node_modules/.bin/openapi-typescript", filepath.Join(root, "api/openapi.json"), "-o",
		"contract.d.ts"); err != nil {
		t.Fatalf("generate the types: %v\n%s", err, out)
	}
	misspelt := strings.Replace(string(sample), "quote.funding_amount", "quote.funding_amont", 1)
	for name, text := range map[string]string{"payroll.mts": string(sample), "misspelt.mts": misspelt} {
		testkit.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out, err := run("node_modules/.bin/tsc", "--strict", "--module", "nodenext", "--target", "es2022", "payroll.mts",
		"misspelt.mts")
	if err == nil || !strings.HasPrefix(out, "misspelt.mts(") || !strings.Contains(out,
		"Property 'funding_amont' does not exist") {
		t.Errorf("a misspelled member compiles: %v\n%s", err, out)
	}
	if strings.Contains(out, "payroll.mts(") {
		t.Fatalf("compile: %s", out)
	}
	s := boot(t, dbtest.SQLite(t))
	out, err = run("node", "payroll.mjs", s.Ready().BaseURL, s.Ready().Seed.APIKey)
	want := regexp.MustCompile(`^prl_[0-9a-z]+ is pending, for 2 workers\npay 0\.\d{8} BTC to bcrt1q[0-9a-z]+\n$`)
	if err != nil || !want.MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("node", "payroll.mjs", s.Ready().BaseURL, s.Ready().Seed.APIKey+"x"); err == nil ||
		!strings.Contains(out, "invalid_token") {
		t.Errorf("call with a wrong key: %v\n%s", err, out)
	}
}
