// Package replica copies an SQLite database continuously to a directory or an S3-compatible store, and restores it from
// there as it was at any moment. It uses Litestream, which reads the write-ahead log of SQLite.
//
// What was committed in the last second before a disk is lost may be missing from the copy. The copy is not encrypted.
//
// A place has the copy of one database. A database that was restored, or a new one, is copied to another place, so that
// it never writes over the copy of transactions that it lacks.
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/benbjohnson/litestream"
	_ "github.com/benbjohnson/litestream/file" // replicas in directories
	_ "github.com/benbjohnson/litestream/s3"   // replicas in S3-compatible stores

	"github.com/stipend/stipend/internal/db"
)

// Retention is the time for which a database can be restored as it was at a moment.
const Retention = 7 * 24 * time.Hour

// Check returns an error unless a URL names a place for a replica: file:///directory or s3://bucket/path, the latter
// with the parameters endpoint and region if the store is not Amazon's.
func Check(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.User != nil:
		return errors.New("set credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in the URL")
	case u.Scheme == "file" && u.Host == "" && len(u.Path) > 1, u.Scheme == "s3" && u.Host != "" && len(u.Path) > 1:
		return nil
	}
	return errors.New("want file:///directory or s3://bucket/path")
}

// ErrOccupied is returned by [Start] if the place has the copy of another database or of an earlier one.
var ErrOccupied = errors.New("replica: this place has the copy of another database, or of this one before it was " +
	"restored; name an empty place, and keep the old one")

// placeSetting is the setting with the place to which a database is copied.
const placeSetting = "replica.place"

// Replica is a database that is being copied.
type Replica struct {
	store *litestream.Store
	db    *litestream.DB
}

// Start begins to copy a database, at a path, to a URL of [Check]. Only one process may copy a database. It returns
// ErrOccupied unless the place is empty, or has the copy of this database.
func Start(ctx context.Context, of *db.DB, path, to string, log *slog.Logger) (*Replica, error) {
	client, err := clientOf(ctx, to, log)
	if err != nil {
		return nil, err
	}
	d := litestream.NewDB(path)
	if err := claim(ctx, of, d, client, to); err != nil {
		return nil, err
	}
	d.Replica = litestream.NewReplicaWithClient(d, client)
	store := litestream.NewStore([]*litestream.DB{d}, litestream.DefaultCompactionLevels)
	store.SnapshotRetention = Retention
	store.Logger = quiet(log)
	d.SetLogger(store.Logger)
	if err := store.Open(ctx); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return &Replica{store, d}, nil
}

// claim makes sure that a place is that of this database, whose local state continues the copy there.
func claim(ctx context.Context, of *db.DB, d *litestream.DB, client litestream.ReplicaClient, to string) error {
	place := ""
	if err := of.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		place, err = db.Setting(ctx, tx, placeSetting)
		return err
	}); err != nil {
		return err
	}
	if _, err := os.Stat(d.MetaPath()); err == nil && place == to {
		return nil
	}
	for level := range litestream.SnapshotLevel + 1 {
		files, err := client.LTXFiles(ctx, level, 0, false)
		if err != nil {
			return fmt.Errorf("replica: %w", err)
		}
		some := files.Next()
		if err := errors.Join(files.Err(), files.Close()); err != nil {
			return fmt.Errorf("replica: %w", err)
		}
		if some {
			return ErrOccupied
		}
	}
	if err := os.RemoveAll(d.MetaPath()); err != nil {
		return err
	}
	return of.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, placeSetting, to) })
}

// Release forgets the place to which a database was copied. A restored database calls it.
func Release(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, placeSetting, "") }

func clientOf(ctx context.Context, text string, log *slog.Logger) (litestream.ReplicaClient, error) {
	if err := Check(text); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	client, err := litestream.NewReplicaClientFromURL(text)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	client.SetLogger(quiet(log))
	if err := client.Init(ctx); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return client, nil
}

// quiet returns a logger for warnings and errors only: Litestream logs each second.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

// atLeast is a handler that ignores records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (a atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= a.level && a.Handler.Enabled(ctx, level)
}

func (a atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{a.Handler.WithAttrs(attrs), a.level}
}

func (a atLeast) WithGroup(name string) slog.Handler {
	return atLeast{a.Handler.WithGroup(name), a.level}
}

// Copied returns the time at which everything that was committed before had been copied, or zero before the first time.
func (r *Replica) Copied() time.Time { return r.db.LastSuccessfulSyncAt() }

// Sync copies everything that was committed before the call.
func (r *Replica) Sync(ctx context.Context) error { return r.db.SyncAndWait(ctx) }

// Close copies what was committed last and ends the copying. Call it after the last transaction.
func (r *Replica) Close(ctx context.Context) error {
	// The store copies at its end only what it has begun to follow, which takes it a second.
	return errors.Join(r.Sync(ctx), r.store.Close(ctx))
}

// Restore writes the database of a replica to a new file: the newest state, or, if at is not zero, the one at a moment
// within [Retention]. It returns the time of the newest transaction that it read. It calls progress, never twice at the
// same time, with the bytes that it has read and those of the files that it has opened.
func Restore(
	ctx context.Context, from, path string, at time.Time, log *slog.Logger, progress func(done, total int64),
) (until time.Time, err error) {
	client, err := clientOf(ctx, from, log)
	if err != nil {
		return until, err
	}
	r := litestream.NewReplicaWithClient(nil, &measured{ReplicaClient: client, sizes: map[span]int64{},
		progress: progress})
	options := litestream.NewRestoreOptions()
	options.OutputPath, options.Timestamp = path, at
	options.IntegrityCheck = litestream.IntegrityCheckQuick
	if until, err = r.CalcRestoreTarget(ctx, options); err != nil {
		return until, fmt.Errorf("replica: %w", err)
	}
	if err := r.Restore(ctx, options); err != nil {
		return until, fmt.Errorf("replica: %w", err)
	}
	return until, nil
}
