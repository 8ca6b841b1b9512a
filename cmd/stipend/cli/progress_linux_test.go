package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/testkit"
)

// inTerminal calls f with a terminal, and returns what was written to it.
func inTerminal(t *testing.T, f func(terminal *os.File)) string {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	testkit.Check(t, err)
	screen := os.NewFile(uintptr(fd), "/dev/ptmx")
	defer screen.Close()
	testkit.Check(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	testkit.Check(t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	testkit.Check(t, err)
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&shown, screen) // ends with EIO when the terminal is closed
	}()
	f(terminal)
	testkit.Check(t, terminal.Close())
	<-read
	return shown.String()
}

// Commands that work for long show on a terminal how far they are, and remove it before they print the result. On
// anything else, and on a terminal without escape sequences, they print the result only.
func TestLongWorkShowsItsProgress(t *testing.T) {
	dir := t.TempDir()
	storage := app.Storage{DatabaseURL: "sqlite:" + filepath.Join(dir, "stipend.db")}
	d, err := db.Open(t.Context(), db.Options{URL: storage.DatabaseURL})
	testkit.Check(t, err)
	testkit.Check(t, d.Migrate(t.Context()))
	testkit.Check(t, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return backoffice.RecordCommand(ctx, tx, "payouts.paused", "", "stipend payouts pause")
	}))
	testkit.Check(t, d.Close())
	key := filepath.Join(dir, "key.txt")
	var pair bytes.Buffer
	testkit.Check(t, cli.KeysBackupCmd{}.Run(cli.Streams{Out: &pair}))
	testkit.Check(t, os.WriteFile(key, pair.Bytes(), 0o600))
	_, public, _ := strings.Cut(pair.String(), "public key: ")
	public, _, _ = strings.Cut(public, "\n")
	log := filepath.Join(dir, "audit.jsonl")
	exported, err := os.Create(log)
	testkit.Check(t, err)
	testkit.Check(t, cli.AuditExportCmd{Storage: storage}.Run(t.Context(), cli.Streams{Out: exported}))
	testkit.Check(t, exported.Close())

	for _, terminal := range []string{"xterm", "dumb", "none"} {
		t.Setenv("TERM", terminal)
		backup := filepath.Join(dir, terminal+".age")
		for _, c := range []struct {
			name   string
			shows  []string // on a terminal
			result string
			run    func(context.Context, cli.Streams) error
		}{
			{"backup", []string{"0% copied", "0 of 2 checks done", "1 of 2 checks done", "100% encrypted"}, "Backed up to ",
				cli.BackupCmd{Storage: storage, To: backup, Recipient: []string{public}}.Run},
			{"restore", []string{"100% decrypted", "0 of 2 checks done", "2 of 2 checks done"}, "can be restored",
				cli.RestoreCmd{Storage: storage, File: backup, Identity: key, Check: true}.Run},
			{"ledger check", []string{"0 of 2 checks done", "1 of 2 checks done"}, "The ledger balances.",
				cli.LedgerCheckCmd{Storage: storage}.Run},
			{"audit verify", []string{"100% checked"}, "entries are as they were written.",
				cli.AuditVerifyCmd{Storage: storage}.Run},
			{"audit verify of a file", []string{"100% checked"}, "entries are as they were written.",
				cli.AuditVerifyCmd{File: log}.Run},
		} {
			var out, logged bytes.Buffer
			var err error
			var shown string
			if terminal == "none" {
				err = c.run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &logged})
				shown = logged.String()
			} else {
				shown = inTerminal(t, func(f *os.File) {
					err = c.run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: f})
				})
			}
			if err != nil || !strings.Contains(out.String(), c.result) || strings.Contains(out.String(), "\x1b") {
				t.Errorf("%s on %s: %v\n%q", c.name, terminal, err, out.String())
			}
			if terminal != "xterm" {
				if shown != "" {
					t.Errorf("%s on %s shows %q", c.name, terminal, shown)
				}
				continue
			}
			for _, text := range c.shows {
				if !strings.Contains(shown, "] "+text) {
					t.Errorf("%s does not show %q: %q", c.name, text, shown)
				}
			}
			if !strings.HasSuffix(shown, "\r\x1b[K") {
				t.Errorf("%s leaves its progress on the screen: %q", c.name, shown)
			}
		}
	}
}

// A terminal shows states in colors, unless NO_COLOR is set or it has none. A pipe, and JSON, have no colors.
func TestColors(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data": [{"payroll_id": "prl_1", "status": "fulfilled"}]}`)
	}))
	defer api.Close()
	for _, c := range []struct {
		name, term, noColor, output string
		colored                     bool
	}{
		{"a terminal", "xterm", "", "table", true},
		{"NO_COLOR", "xterm", "1", "table", false},
		{"a terminal without colors", "dumb", "", "table", false},
		{"JSON", "xterm", "", "json", false},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		list := cli.PayrollsListCmd{Client: cli.Client{URL: api.URL, Key: "key"}, Output: cli.Output{Output: c.output}}
		shown := inTerminal(t, func(f *os.File) { testkit.Check(t, list.Run(t.Context(), cli.Streams{Out: f})) })
		if strings.Contains(shown, "\x1b[32mfulfilled\x1b[0m") != c.colored || strings.Contains(shown, "\x1b") != c.colored ||
			!strings.Contains(shown, "fulfilled") {
			t.Errorf("%s: %q", c.name, shown)
		}
		var piped bytes.Buffer
		testkit.Check(t, list.Run(t.Context(), cli.Streams{Out: &piped}))
		if strings.Contains(piped.String(), "\x1b") {
			t.Errorf("a pipe: %q", piped.String())
		}
	}
}
