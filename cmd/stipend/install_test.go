//go:build release

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/freeport"
)

// operator is a new operator of the service: a user without privileges with a clean directory and the documentation.
type operator struct {
	*testing.T
	dir  string // clean at first
	who  *syscall.SysProcAttr
	docs string // docs/operating.md
	env  []string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	dir, err := os.MkdirTemp("", "stipend-operator-") // a path of t.TempDir is too long for a socket
	testkit.Check(t, err)
	t.Cleanup(func() { testkit.Check(t, os.RemoveAll(dir)) })
	docs, err := os.ReadFile(filepath.Join(root(t), "docs/operating.md"))
	testkit.Check(t, err)
	o := &operator{T: t, dir: dir, docs: string(docs)}
	if os.Geteuid() == 0 {
		account, err := user.Lookup("nobody")
		testkit.Check(t, err)
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		testkit.Check(t, err)
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		testkit.Check(t, err)
		o.who = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		testkit.Check(t, os.Chown(dir, int(uid), int(gid)))
	}
	return o
}

// command returns a command of a shell in a directory below the operator's.
func (o *operator) command(in, line string) *exec.Cmd {
	c := exec.CommandContext(o.Context(), "sh", "-euc", line)
	c.Dir, c.SysProcAttr = filepath.Join(o.dir, in), o.who
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.dir, "LANG=C"}, o.env...)
	return c
}

// run runs a line of a shell and returns its output.
func (o *operator) run(in, line string) string {
	o.Helper()
	out, err := o.command(in, line).CombinedOutput()
	if err != nil {
		o.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// follow runs a line that the documentation has, with its placeholders replaced.
func (o *operator) follow(in, line string, replace ...string) string {
	o.Helper()
	if !strings.Contains(o.docs, line) {
		o.Errorf("docs/operating.md does not say: %s", line)
	}
	return o.run(in, strings.NewReplacer(replace...).Replace(line))
}

// start starts a line of a shell that ends with the test, or when the returned function is called.
func (o *operator) start(in, line string, out, log io.Writer) (stop func()) {
	o.Helper()
	c := o.command(in, "exec "+line)
	c.Stdout, c.Stderr = out, log
	testkit.Check(o.T, c.Start())
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }() // its caller looks at the output
	stop = func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	o.Cleanup(stop)
	return stop
}

// write writes a file of the operator's.
func (o *operator) write(name, text string) {
	o.Helper()
	name = filepath.Join(o.dir, name)
	testkit.Check(o.T, os.WriteFile(name, []byte(text), 0o600))
	if o.who != nil {
		testkit.Check(o.T, os.Chown(name, int(o.who.Credential.Uid), int(o.who.Credential.Gid)))
	}
}

// archive builds the archive of a release from the files of the repository, and gives it to the operator.
func (o *operator) archive(version string) {
	o.Helper()
	source, dist := filepath.Join(o.TempDir(), "source"), filepath.Join(o.TempDir(), "dist")
	for name := range strings.SplitSeq(git(o.T, "ls-files", "-coz", "--exclude-standard"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root(o.T), name))
		if err != nil {
			continue // deleted, or a directory
		}
		target := filepath.Join(source, name)
		testkit.Check(o.T, os.MkdirAll(filepath.Dir(target), 0o755))
		testkit.Check(o.T, os.WriteFile(target, data, 0o755))
	}
	for _, line := range [][]string{
		{"git", "init", "--quiet"}, {"git", "add", "--all"},
		{"git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=test"},
		{"go", "-C", "tools/release", "run", ".", "-version", version, "-out", dist, "-platforms",
			runtime.GOOS + "/" + runtime.GOARCH},
	} {
		c := exec.CommandContext(o.Context(), line[0], line[1:]...)
		c.Dir = source
		if out, err := c.CombinedOutput(); err != nil {
			o.Fatalf("%v: %v\n%s", line, err, out)
		}
	}
	files, err := os.ReadDir(dist)
	testkit.Check(o.T, err)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dist, f.Name()))
		testkit.Check(o.T, err)
		o.write(f.Name(), string(data))
	}
}

// certificate writes a certificate for localhost, and returns a client that trusts it.
func (o *operator) certificate() *http.Client {
	o.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Check(o.T, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	testkit.Check(o.T, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.Check(o.T, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	o.write("tls.pem", string(public))
	o.write("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(public)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots}}}
}

func free(t *testing.T) (address, port string) {
	t.Helper()
	address, err := freeport.Free()
	testkit.Check(t, err)
	_, port, err = net.SplitHostPort(address)
	testkit.Check(t, err)
	return address, port
}

// A new operator who has only docs/operating.md installs the archive of a release in a clean directory without root,
// with PostgreSQL, a Bitcoin node and TLS behind nginx; pays a payroll on the chain; makes a backup; loses the data
// after another payroll was paid; restores it, finds the payouts that wait in the metrics of the dashboard, marks what
// was paid since, and resumes. Nobody is paid twice.
func TestInstallFromTheArchive(t *testing.T) {
	o := newOperator(t)
	const version = "v0.0.1"
	o.archive(version)
	platform := runtime.GOOS + "_" + runtime.GOARCH
	o.run("", "sha256sum --ignore-missing -c SHA256SUMS")
	name := "stipend_" + strings.TrimPrefix(version, "v") + "_" + platform
	o.follow("", "tar -xf stipend_VERSION_linux_amd64.tar.gz && cd stipend_VERSION_linux_amd64",
		"VERSION", strings.TrimPrefix(version, "v"), "linux_amd64", platform)
	o.follow(name, "cp deploy/stipend.env stipend.env && chmod 600 stipend.env")
	o.follow(name, "stipend keys new > keys.env && chmod 600 keys.env", "stipend keys new",
		"./stipend keys new --network regtest")

	// PostgreSQL, with an archive of its log.
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatal("no PostgreSQL: install the package postgresql")
	}
	o.env = append(o.env, "PATH="+found[len(found)-1]+":"+os.Getenv("PATH"), "PGHOST="+o.dir, "PGUSER=stipend",
		"PGDATABASE=stipend")
	scripts := filepath.Join(o.dir, name, "deploy/postgresql")
	o.run("", "initdb --pgdata=data --username=stipend --auth=trust --encoding=UTF8 --locale=C >/dev/null")
	o.run("", "mkdir wal base")
	o.write("more.conf", fmt.Sprintf("archive_mode = on\narchive_command = '%s/archive.sh %%p %%f %s/wal'\n"+
		"archive_timeout = 60\nlisten_addresses = ''\nunix_socket_directories = '%s'\n", scripts, o.dir, o.dir))
	server := func(data string) {
		o.Helper()
		o.run("", "pg_ctl start --wait --silent --pgdata="+data+" --log=postgresql.log")
		o.Cleanup(func() { _ = o.command("", "pg_ctl stop --wait --silent --mode=immediate --pgdata="+data).Run() })
	}
	o.run("", "cat more.conf >>data/postgresql.conf")
	server("data")
	if !strings.Contains(o.docs, "ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0") {
		t.Error("docs/operating.md does not say how to create the database")
	}
	o.run("", `psql -Xd postgres -c "CREATE DATABASE stipend ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"`)

	// A node, nginx, and the settings.
	node := btcdtest.Start(t)
	client := o.certificate()
	api, apiPort := free(t)
	metrics, _ := free(t)
	_, tlsPort := free(t)
	site, err := os.ReadFile(filepath.Join(o.dir, name, "deploy/nginx.conf"))
	testkit.Check(t, err)
	o.write("nginx.conf", "daemon off; master_process off; error_log stderr; pid nginx.pid; events {}\n"+
		"http {\naccess_log off;\n"+
		"client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;\n"+
		strings.NewReplacer("listen 443", "listen 127.0.0.1:"+tlsPort, "pay.example.com;", "localhost;",
			"/etc/ssl/certs/pay.example.com.pem", o.dir+"/tls.pem", "/etc/ssl/private/pay.example.com.key", o.dir+"/tls.key",
			"127.0.0.1:8080", "127.0.0.1:"+apiPort).Replace(string(site))+"}\n")
	o.start("", "nginx -e stderr -p "+o.dir+" -c nginx.conf", nil, nil)
	o.write(name+"/more.env", strings.Join([]string{"STIPEND_LISTEN=" + api, "STIPEND_METRICS_LISTEN=" + metrics,
		"STIPEND_BASE_URL=https://localhost:" + tlsPort, "STIPEND_TRUSTED_PROXIES=127.0.0.1/32",
		`STIPEND_DATABASE_URL="postgres://stipend@/stipend?host=` + o.dir + `"`, "STIPEND_BITCOIN_RPC=" + node.URL(),
		"STIPEND_LOG_LEVEL=error", ""}, "\n"))
	o.run(name, "cat keys.env more.env >>stipend.env")
	const settings, serve = "set -a && . ./stipend.env && set +a && ", "./stipend serve"
	if !strings.Contains(o.docs, settings+serve) {
		t.Error("docs/operating.md does not say how to start the program")
	}
	w := &world{t: t, node: node, client: client, paid: map[string]bool{}, created: map[int]payroll{}}
	begin := func() (stop func()) {
		t.Helper()
		out, logs := &locked{}, &locked{}
		c := o.start(name, "sh -c '"+settings+"exec "+serve+" --json'", out, logs)
		w.until("the service is ready", func() bool {
			line, _, found := strings.Cut(out.String(), "\n")
			if strings.Contains(logs.String(), "stipend: ") {
				t.Fatalf("the service did not start: %s", logs)
			}
			if !found {
				return false
			}
			w.ready = app.Ready{}
			testkit.Check(t, json.Unmarshal([]byte(line), &w.ready))
			return true
		})
		return c
	}
	stipend := func(line string) string { t.Helper(); return o.run(name, settings+"./"+line) }

	// A payroll.
	stop := begin()
	if w.ready.BaseURL != "https://localhost:"+tlsPort {
		t.Fatalf("the service is at %s", w.ready.BaseURL)
	}
	for range payees {
		w.payees = append(w.payees, w.addPayee())
	}
	hooks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer hooks.Close()
	testkit.Check(t, w.call(http.MethodPost, "/api/webhooks", "", map[string]any{"url": hooks.URL,
		"events": []string{"payroll.*"}}, &struct{}{}))
	w.until("a payroll is created", func() bool { return w.fund(0) == nil })
	w.until("it is paid", func() bool { return w.mine() == nil && w.fulfilled() })

	// The backup, and another payroll that it does not have.
	o.follow(name+"/deploy/postgresql", "backup.sh /mnt/backup/base/2026-07-01", "backup.sh", "./backup.sh", "/mnt/backup",
		o.dir)
	testkit.Check(t, w.create(1))
	for range 3 { // enough coins to pay a second time
		_, err := node.PayAll(t.Context(), chain.Output{Address: w.created[1].Quote.Details.Address, Amount: 100_000_000})
		testkit.Check(t, err)
	}
	w.until("the payment for the next payroll is seen", func() bool {
		testkit.Check(t, w.fund(1))
		return w.detail(w.created[1]).Status == "pending"
	})
	moment := strings.TrimSpace(o.run("", "psql -XAtc 'SELECT clock_timestamp()'"))
	w.until("it is paid, too", func() bool { return w.mine() == nil && w.fulfilled() })
	before := w.onChain()
	o.run("", "psql -XAtc 'SELECT pg_switch_wal()'")
	stop()
	o.run("", "pg_ctl stop --wait --silent --pgdata=data && rm -r data")

	// The restore.
	o.follow(name+"/deploy/postgresql",
		`restore.sh /mnt/backup/base/2026-07-01 /mnt/backup/wal /var/lib/postgresql/new "2026-07-01 14:30:00+00"`,
		"restore.sh", "./restore.sh", "/mnt/backup", o.dir, "/var/lib/postgresql", o.dir, "2026-07-01 14:30:00+00", moment)
	server("new")
	w.until("the database is recovered", func() bool {
		return strings.TrimSpace(o.run("", "psql -XAtc 'SELECT pg_is_in_recovery()'")) == "f"
	})
	if out := stipend("stipend restored"); !strings.Contains(out, "Payouts are paused.") {
		t.Errorf("stipend restored says %s", out)
	}
	stop = begin()
	w.until("the payments made since the backup are found", func() bool {
		return w.mine() == nil && strings.Contains(stipend("stipend payouts status"), "not known here:")
	})
	for range 10 {
		testkit.Check(t, w.mine())
	}
	status := stipend("stipend payouts status")
	if !regexp.MustCompile(`(?m)^queued +3$`).MatchString(status) {
		t.Errorf("the outputs of the second payroll do not wait:\n%s", status)
	}

	// What the dashboard shows: outputs wait, and payouts are paused.
	var shown string
	w.until("the metrics have been read", func() bool {
		shown = fetchMetrics(t, metrics)
		return strings.Contains(shown, "\n"+`stipend_payouts{rail="bitcoin",state="queued"} 3`+"\n") &&
			strings.Contains(shown, "\nstipend_payouts_paused 1\n") && strings.Contains(shown, "\nstipend_webhook_seconds_")
	})
	board, err := os.ReadFile(filepath.Join(o.dir, name, "deploy/grafana/stipend.json"))
	testkit.Check(t, err)
	for _, metric := range regexp.MustCompile(`stipend_[a-z_]+`).FindAllString(string(board), -1) {
		if !strings.Contains(shown, "\n# TYPE "+suffix.ReplaceAllString(metric, "")+" ") {
			t.Errorf("the dashboard asks for %s, which the service does not have", metric)
		}
	}

	txid := strings.Fields(status[strings.Index(status, "not known here:"):])[3]
	if !strings.Contains(o.docs, "stipend payouts paid out_… --txid …") {
		t.Error("docs/operating.md does not say how to mark an output")
	}
	for _, output := range regexp.MustCompile(`out_\w+`).FindAllString(stipend("stipend payouts queued"), -1) {
		stipend("stipend payouts paid " + output + " --txid " + txid)
	}
	stipend("stipend ledger suspense")
	stipend("stipend ledger check")
	stipend("stipend payouts resume")
	w.until("both payrolls are fulfilled", func() bool { return w.mine() == nil && w.fulfilled() })
	if after := w.onChain(); !maps.Equal(after, before) {
		t.Errorf("the payees got %v before the loss, and %v after the restore", before, after)
	}
	w.until("a payroll after the restore is created", func() bool { return w.fund(2) == nil })
	w.until("it is paid", func() bool { return w.mine() == nil && w.fulfilled() })
	stipend("stipend reconcile")
	stop()
	stipend("stipend ledger check")
	stipend("stipend audit verify")
}

// suffix is what the name of a metric of a histogram ends with.
var suffix = regexp.MustCompile("_(bucket|sum|count)$")

// fetchMetrics returns the metrics of a process.
func fetchMetrics(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	testkit.Check(t, err)
	res, err := http.DefaultClient.Do(req)
	testkit.Check(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	testkit.Check(t, err)
	return "\n" + string(text)
}

// locked is a buffer that a process writes while the test reads it.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
