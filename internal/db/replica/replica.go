// Package replica continuously copies an SQLite database to a directory or an S3-compatible store, and restores it to
// its state at any time within [Retention]. It uses Litestream, which reads SQLite's write-ahead log.
//
// If a disk is lost, transactions of the last second may be missing from the copy. The copy is not encrypted.
//
// Each place holds the copy of one database. A new or restored database must be copied to another place, so that it
// never overwrites a copy with transactions that it lacks.
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

// Retention is how far back in time a database can be restored.
const Retention = 7 * 24 * time.Hour

// Check returns an error unless text is the URL of a place for a replica: file:///directory or s3://bucket/path. The
// parameters endpoint and region select a store other than Amazon's.
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

// ErrOccupied is returned by [Start] if the place holds the copy of another database, or of this database before it
// was restored.
var ErrOccupied = errors.New("replica: this place has the copy of another database, or of this one before it was " +
	"restored; name an empty place, and keep the old one")

// placeSetting is the setting that stores the place to which the database is copied.
const placeSetting = "replica.place"

// Replica is a database that is being copied.
type Replica struct {
	store *litestream.Store
	db    *litestream.DB
}

// Start begins to copy the database of, whose file is at path, to the place with the URL to (see [Check]). Only one
// process may copy a database. Start returns ErrOccupied unless the place is empty or holds the copy of this
// database.
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

// claim checks that the place is empty or holds the copy of this database and that the local state, which is needed
// to continue that copy, exists. It stores an empty place as this database's place.
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

// Release deletes the stored place of the replica. It is called for a restored database, which must not continue the
// old copy.
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

// quiet returns a logger that drops records below warnings, because Litestream logs every second.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

// atLeast is a handler that drops records below a level.
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

// Copied returns the time of the last complete copy: every transaction committed before it has been copied. It is
// zero if there was none yet.
func (r *Replica) Copied() time.Time { return r.db.LastSuccessfulSyncAt() }

// Sync copies all transactions that were committed before the call.
func (r *Replica) Sync(ctx context.Context) error { return r.db.SyncAndWait(ctx) }

// Close copies the remaining transactions and ends the copying. Call it after the last transaction.
func (r *Replica) Close(ctx context.Context) error {
	// The store's Close copies only the transactions that it has already noticed, which can take it a second.
	return errors.Join(r.Sync(ctx), r.store.Close(ctx))
}

// Restore writes the database of a replica to a new file: its newest state, or, if at is not zero, its state at that
// time, which must be within [Retention]. It returns the time of the newest transaction that it read. It calls
// progress, never concurrently, with the number of bytes read and the total size of the files opened so far.
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
