package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stipend/stipend/internal/testkit"
)

// Failover is a primary server with an asynchronous standby, which may lack the primary's last commits.
type Failover struct{ primary, standby *Server }

// StartFailover starts both servers and creates a database. The caller must call Close to stop the servers.
func StartFailover(ctx context.Context, name string) (*Failover, error) {
	root, err := testkit.Root()
	if err != nil {
		return nil, err
	}
	f := &Failover{}
	if f.primary, err = launch(ctx, root, false, initCluster); err != nil {
		return nil, err
	}
	if _, err = f.primary.Database(ctx, name); err == nil {
		f.standby, err = launch(ctx, root, false, f.backup)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// URL returns a URL that names both servers and connects to the writable one.
func (f *Failover) URL(name string) string {
	return (&url.URL{Scheme: "postgres", User: url.User("stipend"), Path: "/" + name, RawQuery: url.Values{
		"host": {f.primary.Dir + "," + f.standby.Dir}, "port": {"5432,5432"}, "target_session_attrs": {"read-write"},
	}.Encode()}).String()
}

// backup copies the running primary, as pg_basebackup does, to the directory of the standby.
func (f *Failover) backup(ctx context.Context, s *Server, _ func(string, ...string) *exec.Cmd) error {
	conn, err := pgx.Connect(ctx, f.primary.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SELECT pg_backup_start('standby', true)"); err != nil {
		return err
	}
	if err := s.copyFrom(f.primary); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(false)").Scan(&label); err != nil {
		return err
	}
	return errors.Join(
		s.put("backup_label", label), s.put("standby.signal", ""),
		s.put("postgresql.auto.conf", fmt.Sprintf("primary_conninfo = 'host=%s port=5432 user=stipend'\n", f.primary.Dir)),
	)
}

// copyFrom copies another server's cluster, except its WAL and the files that belong to the running process.
func (s *Server) copyFrom(from *Server) error {
	return filepath.WalkDir(from.data(), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file no longer exists: a running server creates and deletes files
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from.data(), path)
		if err != nil {
			return err
		}
		to := filepath.Join(s.data(), name)
		switch {
		case entry.IsDir():
			if err := os.Mkdir(to, 0o700); err != nil {
				return err
			}
			return s.give(to)
		case strings.HasPrefix(name, "pg_wal"), name == "postmaster.pid", name == "postmaster.opts",
			!entry.Type().IsRegular():
			return nil
		}
		source, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer source.Close()
		target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(target, source)
		return errors.Join(err, target.Close(), s.give(to))
	})
}

func (s *Server) put(name, text string) error {
	path := filepath.Join(s.data(), name)
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), s.give(path))
}

// give makes the server's user the owner of a file.
func (s *Server) give(path string) error {
	if s.who == nil {
		return nil
	}
	return os.Chown(path, int(s.who.Uid), int(s.who.Gid))
}

// Cut waits until the standby has all commits of the primary, then ends the replication.
func (f *Failover) Cut(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, f.primary.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var place string
	if err := conn.QueryRow(ctx, "SELECT CAST(pg_current_wal_insert_lsn() AS TEXT)").Scan(&place); err != nil {
		return err
	}
	for there := false; !there; time.Sleep(10 * time.Millisecond) {
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_replication
			WHERE replay_lsn >= CAST($1 AS pg_lsn))`, place).Scan(&there)
		if err != nil {
			return err
		}
	}
	if err := f.standby.admin(ctx, "ALTER SYSTEM SET primary_conninfo = ''"); err != nil {
		return err
	}
	if err := f.standby.admin(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	for left := int64(1); left > 0; time.Sleep(10 * time.Millisecond) {
		if err := conn.QueryRow(ctx, "SELECT COUNT(*) FROM pg_stat_replication").Scan(&left); err != nil {
			return err
		}
	}
	return nil
}

// Promote stops the primary and promotes the standby.
func (f *Failover) Promote(ctx context.Context) error {
	f.primary.Stop()
	f.primary = nil
	return f.standby.admin(ctx, "SELECT pg_promote(true, 60)")
}

// Close stops the servers and removes their files.
func (f *Failover) Close() {
	for _, s := range []*Server{f.standby, f.primary} {
		if s != nil {
			s.Stop()
		}
	}
}
