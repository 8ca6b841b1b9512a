package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is a PostgreSQL server that runs as another user than root.
type server struct {
	*testing.T
	bin, dir string // of the programs; of sockets and logs
	who      *syscall.SysProcAttr
}

func newServer(t *testing.T) *server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_basebackup")
	if err != nil || len(found) == 0 {
		t.Fatal("no pg_basebackup: install the package postgresql")
	}
	dir, err := os.MkdirTemp("", "stipend-pitr-") // a path of t.TempDir is too long for a socket
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	s := &server{T: t, bin: filepath.Dir(found[len(found)-1]), dir: dir}
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		check(t, err)
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		check(t, err)
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		check(t, err)
		s.who = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		check(t, os.Chown(dir, int(uid), int(gid)))
	}
	return s
}

// run runs a program as the server's user and returns its output.
func (s *server) run(name string, args ...string) string {
	s.Helper()
	c := exec.CommandContext(s.Context(), name, args...)
	c.Dir, c.SysProcAttr = s.dir, s.who
	c.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "PGHOST="+s.dir, "PGUSER=stipend",
		"HOME="+s.dir, "PGDATABASE=postgres")
	out, err := c.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.Fatalf("%s %s: %v\n%s\n%s", filepath.Base(name), strings.Join(args, " "), err, out, log)
	}
	return string(out)
}

func (s *server) start(data string) {
	s.Helper()
	s.run(filepath.Join(s.bin, "pg_ctl"), "start", "--wait", "--silent", "--pgdata="+data, "--log="+filepath.Join(s.dir,
		"log"), "-o", "-k "+s.dir+" -c listen_addresses=''")
	s.Cleanup(func() { s.stop(data) })
}

func (s *server) stop(data string) {
	s.Helper()
	if _, err := os.Stat(filepath.Join(data, "postmaster.pid")); err == nil {
		c := exec.Command(filepath.Join(s.bin, "pg_ctl"), "stop", "--wait", "--silent", "--mode=fast", "--pgdata="+data)
		c.SysProcAttr = s.who
		if out, err := c.CombinedOutput(); err != nil {
			s.Errorf("stop: %v\n%s", err, out)
		}
	}
}

func (s *server) sql(statement string) string {
	s.Helper()
	return strings.TrimSpace(s.run(filepath.Join(s.bin, "psql"), "-XAtc", statement))
}

// recover starts a server, and waits until its recovery is complete.
func (s *server) recover(data string) {
	s.Helper()
	s.start(data)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for s.sql("SELECT pg_is_in_recovery()") != "f" {
		<-look.C
	}
}

// The scripts in deploy/postgresql recover the database as it was at a moment: what was committed before is there, what
// came later is not, the ledger balances, and payouts are paused until staff has found those made since.
func TestPointInTimeRecovery(t *testing.T) {
	root, err := filepath.Abs(repository)
	check(t, err)
	binary := filepath.Join(t.TempDir(), "stipend")
	output(t, root, "go", "build", "-trimpath", "-o", binary, "./cmd/stipend")
	s := newServer(t)
	script := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "deploy/postgresql", name))
		check(t, err)
		copied := filepath.Join(s.dir, name)
		check(t, os.WriteFile(copied, text, 0o755))
		check(t, os.Chmod(copied, 0o755))
		return copied
	}
	data, wal, base := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "wal"), filepath.Join(s.dir, "base")
	archive := script("archive.sh")
	s.run("mkdir", wal)
	s.run(filepath.Join(s.bin, "initdb"), "--pgdata="+data, "--username=stipend", "--auth=trust", "--encoding=UTF8",
		"--locale=C")
	s.run("sh", "-c", fmt.Sprintf(`printf "%%s\n" "archive_mode = on" "archive_command = '%s %%p %%f %s'" >>%s`,
		archive, wal, filepath.Join(data, "postgresql.conf")))
	s.start(data)
	s.sql("CREATE DATABASE stipend")
	s.run(script("backup.sh"), base)

	url := "postgres://stipend@/stipend?host=" + s.dir
	first := payroll(t, binary, url)
	moment := s.sql("SELECT clock_timestamp()")
	second := payroll(t, binary, url)
	s.sql("SELECT pg_switch_wal()")
	s.stop(data) // archives the last file
	check(t, os.RemoveAll(data))

	s.run(script("restore.sh"), base, wal, data, moment)
	s.recover(data)
	command := func(args ...string) string {
		return output(t, "", binary, append(args, "--database-url", url)...)
	}
	if out := command("restored"); !strings.Contains(out, "Payouts are paused.") {
		t.Errorf("stipend restored says %s", out)
	}
	if out := command("payouts", "status"); !strings.Contains(out, "Payouts are paused: the database was restored") {
		t.Errorf("stipend payouts status says %s", out)
	}
	command("ledger", "check")
	payrolls := func(id, want string) {
		t.Helper()
		if got := s.run(filepath.Join(s.bin, "psql"), "-XAtc", "SELECT COUNT(*) FROM payrolls WHERE payroll_id = '"+id+"'",
			"stipend"); strings.TrimSpace(got) != want {
			t.Errorf("after the recovery there are %s payrolls %s, want %s", strings.TrimSpace(got), id, want)
		}
	}
	payrolls(first, "1")
	payrolls(second, "0")
	if out, err := exec.Command(script("restore.sh"), base, wal, data, moment).CombinedOutput(); err == nil {
		t.Errorf("a restore replaced a data directory: %s", out)
	}

	// Without a time everything is recovered, also if the server of the backup had been recovered to one itself.
	s.stop(data)
	s.run("sh", "-c", fmt.Sprintf(`echo "recovery_target_time = '%s'" >>%s`, moment,
		filepath.Join(base, "postgresql.auto.conf")))
	everything := filepath.Join(s.dir, "everything")
	s.run(script("restore.sh"), base, wal, everything)
	s.recover(everything)
	payrolls(first, "1")
	payrolls(second, "1")
}

// payroll serves a sandbox on the database, creates a payroll and ends the sandbox.
func payroll(t *testing.T, binary, url string) (id string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary, "serve", "--json", "--database-url", url, "--listen=127.0.0.1:0",
		"--metrics-listen=", "--log-level=error")
	var log bytes.Buffer
	c.Stderr = &log
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	defer func() {
		check(t, c.Process.Signal(syscall.SIGTERM))
		if err := c.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, &log)
		}
	}()
	var ready struct {
		BaseURL string `json:"base_url"`
		Seed    struct {
			CompanyID string `json:"company_id"`
			APIKey    string `json:"api_key"`
			Workers   []struct {
				UserID string `json:"user_id"`
			} `json:"workers"`
		} `json:"seed"`
	}
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatalf("serve: %v\n%s", err, &log)
	}
	body := fmt.Sprintf(`{"company_id":%q,"currency":"USD","to_pay":[{"user_id":%q,"amount_fiat":100.00}]}`,
		ready.Seed.CompanyID, ready.Seed.Workers[0].UserID)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ready.BaseURL+"/api/company/payroll/create",
		strings.NewReader(body))
	check(t, err)
	req.Header.Set("Authorization", "Basic "+ready.Seed.APIKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", strconv.FormatInt(time.Now().UnixNano(), 10))
	res, err := http.DefaultClient.Do(req)
	check(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check(t, err)
	var created struct {
		PayrollID string `json:"payroll_id"`
	}
	check(t, json.Unmarshal(text, &created))
	if created.PayrollID == "" {
		t.Fatalf("create: %s", text)
	}
	return created.PayrollID
}
