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

// readmeLines is the length of the program that begins the README of an SDK: a payroll in 15 lines.
const readmeLines = 15

// Each SDK passes its tests against a sandbox. The program that begins its README creates a payroll, and that of the
// quickstart pays one. That of the guide for a whole app signs a company up, pays three people and takes a payment.
func TestSDKs(t *testing.T) {
	testkit.NotQuick(t, "other languages")
	t.Parallel()
	root, err := filepath.Abs("../..")
	testkit.Check(t, err)
	s := boot(t, dbtest.SQLite(t))
	run := func(t *testing.T, dir, program string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "STIPEND_URL="+s.Ready().BaseURL, "STIPEND_KEY="+s.Ready().Seed.APIKey,
			"PYTHONPATH="+filepath.Join(root, "sdk/python"), "PYTHONDONTWRITEBYTECODE=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	// quickstart writes the program of the guide in a language to a file, and returns its name.
	quickstart := func(t *testing.T, language, file string) string {
		t.Helper()
		testkit.Check(t, os.WriteFile(file, []byte(code(t, "quickstart.md", language)[0]), 0o600))
		return file
	}
	// app writes the program of the guide for a whole app in a language to a file, and returns its name.
	app := func(t *testing.T, language, file string) string {
		t.Helper()
		testkit.Check(t, os.WriteFile(file, []byte(code(t, "whole-app.md", language)[0]), 0o600))
		return file
	}
	works := func(t *testing.T, out string) {
		t.Helper()
		ends := regexp.MustCompile(`^signed up com_\w+\ncheckout http\S+\neverybody is paid\nthe order is paid\n$`)
		if !ends.MatchString(out) {
			t.Errorf("the program of the guide prints %q", out)
		}
	}
	pays := func(t *testing.T, out string) {
		t.Helper()
		if !regexp.MustCompile(`^Pay 0\.\d+ BTC to bcrt1q[0-9a-z]+\n(\w+\n)*fulfilled\n$`).MatchString(out) {
			t.Errorf("the program of the quickstart prints %q", out)
		}
	}
	// readme writes the first program of the README to a file, and returns its name.
	readme := func(t *testing.T, language, file string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, "sdk", language, "README.md"))
		testkit.Check(t, err)
		code := regexp.MustCompile("(?s)```[a-z]+\n(.*?)```").FindSubmatch(text)
		if code == nil {
			t.Fatal("the README has no program")
		}
		lines := regexp.MustCompile(`(?m)^.*\S.*$`).FindAllString(string(code[1]), -1)
		if len(lines) > readmeLines {
			t.Errorf("the program of the README has %d lines, want at most %d", len(lines), readmeLines)
		}
		testkit.Check(t, os.WriteFile(file, code[1], 0o600))
		return file
	}
	prints := func(t *testing.T, out string) {
		t.Helper()
		if !regexp.MustCompile(`^Pay 0\.\d+ BTC to bcrt1q[0-9a-z]+\n$`).MatchString(out) {
			t.Errorf("the program of the README prints %q", out)
		}
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		prints(t, run(t, root, "go", "run", readme(t, "go", filepath.Join(t.TempDir(), "main.go"))))
		pays(t, run(t, root, "go", "run", quickstart(t, "go", filepath.Join(t.TempDir(), "main.go"))))
		works(t, run(t, root, "go", "run", app(t, "go", filepath.Join(t.TempDir(), "main.go"))))
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		prints(t, run(t, dir, "python3", readme(t, "python", filepath.Join(dir, "readme.py"))))
		pays(t, run(t, dir, "python3", quickstart(t, "python", filepath.Join(dir, "quickstart.py"))))
		works(t, run(t, dir, "python3", app(t, "python", filepath.Join(dir, "app.py"))))
		run(t, dir, "python3", "-W", "error", filepath.Join(root, "sdk/python/tests/test_sandbox.py"))
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		modules := filepath.Join(root, ".tools/contract/node_modules")
		if _, err := os.Stat(filepath.Join(modules, "typescript")); err != nil {
			t.Fatal("npm's typescript is not installed; run tools/install.sh contract")
		}
		source, dir := t.TempDir(), t.TempDir()
		testkit.Check(t, os.CopyFS(source, os.DirFS(filepath.Join(root, "sdk/typescript"))))
		testkit.Check(t, os.RemoveAll(filepath.Join(source, "node_modules"))) // of a developer who followed the quickstart
		testkit.Check(t, os.Symlink(modules, filepath.Join(source, "node_modules")))
		archives := strings.Fields(run(t, source, "npm", "pack", "--silent", "--pack-destination", dir))
		run(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts",
			"./"+archives[len(archives)-1])
		testkit.Check(t, os.CopyFS(filepath.Join(dir, "test"), os.DirFS(filepath.Join(source, "test"))))
		readme(t, "typescript", filepath.Join(dir, "test/readme.mts"))
		quickstart(t, "ts", filepath.Join(dir, "test/quickstart.mts"))
		app(t, "ts", filepath.Join(dir, "test/app.mts"))
		tsc := []string{
			"--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "--types", "node",
			"--typeRoots", filepath.Join(modules, "@types"), "test/readme.mts", "test/quickstart.mts", "test/app.mts",
			"test/sandbox.mts",
			"test/misspelled.mts",
		}
		c := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin/tsc"), tsc...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		wrong := regexp.MustCompile(`(?m)^test/misspelled.mts\((\d+),`).FindAllStringSubmatch(string(out), -1)
		if err == nil || len(wrong) != 2 || strings.Count(string(out), "): error") != 2 {
			t.Fatalf("want errors in both requests of misspelled.mts and nowhere else: %v\n%s", err, out)
		}
		prints(t, run(t, dir, "node", "test/readme.mjs"))
		pays(t, run(t, dir, "node", "test/quickstart.mjs"))
		works(t, run(t, dir, "node", "test/app.mjs"))
		run(t, dir, "node", "--test", "test/sandbox.mjs")
	})
}
