package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/replica"
	"github.com/stipend/stipend/internal/ledger"
)

// backupTaken is the setting, in a copied database, with the time at which the copy was made.
const backupTaken = "backup.taken"

// KeysBackupCmd creates the key pair that encrypts backups.
type KeysBackupCmd struct{}

// Help returns the details of the help.
func (KeysBackupCmd) Help() string {
	return `Only the secret key decrypts a backup. Keep it offline, not on the machine that makes backups: that one needs
only the public key, which begins with age1.

  stipend keys backup > backup-key.txt && chmod 600 backup-key.txt`
}

// Run prints a new key pair in the format of age-keygen.
func (KeysBackupCmd) Run(std Streams) error {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "# created: %s\n# public key: %s\n%s\n", time.Now().Format(time.RFC3339), key.Recipient(), key)
	return nil
}

// BackupCmd backs up an embedded database.
type BackupCmd struct {
	app.Storage
	To        string   `required:"" placeholder:"FILE" help:"New file of the backup; - writes it to stdout."`
	Recipient []string `required:"" placeholder:"KEY" help:"Public key (age1…) that encrypts it; several with commas."`
}

// Help returns the details of the help.
func (BackupCmd) Help() string {
	return `It copies an SQLite database while the service uses it. The copy is consistent: it has everything that was
committed when the command began. The command opens the copy, checks its structure and its ledger, encrypts it
with age, and then gives the file its name. It needs as much free space in the data directory as the database has.

  stipend keys backup > backup-key.txt             # once; keep it offline
  stipend backup --to backup.age --recipient age1…
  stipend restore backup.age --check --identity backup-key.txt

The backup does not contain the keys of the wallet or the data key. For PostgreSQL: docs/operating.md.`
}

// Run makes the backup. It returns ledger.ErrWrong, after it has written the backup, if the ledger does not balance.
func (c BackupCmd) Run(ctx context.Context, std Streams) error {
	var recipients []age.Recipient
	for _, text := range c.Recipient {
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return fmt.Errorf("--recipient %q is not a public key of age: create one with stipend keys backup", text)
		}
		recipients = append(recipients, some...)
	}
	path, embedded := c.path()
	if !embedded {
		return db.ErrNotEmbedded
	}
	out := std.Out
	if c.To != "-" {
		out = std.Err
		if _, err := os.Stat(c.To); err == nil {
			return fmt.Errorf("%s exists; name a new file", c.To)
		}
	}
	bar := &progress{w: std.Err}
	defer bar.end()
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		work, err := os.MkdirTemp(filepath.Dir(path), ".backup-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		copied := filepath.Join(work, "stipend.db")
		if err := bar.growing(copied, fileSize(path), "copied", func() error { return d.Backup(ctx, copied) }); err != nil {
			return err
		}
		report, err := checkCopy(ctx, copied, bar, func(ctx context.Context, tx *db.Tx) error {
			return db.SetSetting(ctx, tx, backupTaken, tx.Now().UTC().Format(time.RFC3339))
		})
		if err != nil {
			return err
		}
		size, err := c.encrypt(std, copied, bar, recipients)
		if err != nil {
			return err
		}
		bar.end()
		if c.To != "-" {
			fmt.Fprintf(std.Out, "Backed up to %s: %d bytes, with %d journals.\n", c.To, size, report.Journals)
		}
		return ledgerResult(out, report, "The backup is complete, but its ledger does not balance.")
	})
}

// ledgerResult prints a sentence followed by the problems of a ledger. It returns ledger.ErrWrong if there are any.
func ledgerResult(w io.Writer, r ledger.Report, sentence string) error {
	if len(r.Problems) == 0 {
		return nil
	}
	fmt.Fprintln(w, sentence)
	for _, p := range r.Problems {
		fmt.Fprintf(w, "WRONG: %s\n", p)
	}
	return ledger.ErrWrong
}

// checks is the number of checks that a copied database undergoes.
const checks = 2

// checkCopy opens a copied database that no other process uses, migrates it, checks its structure and its ledger, and
// changes it in a transaction.
func checkCopy(
	ctx context.Context, path string, bar *progress, change func(context.Context, *db.Tx) error,
) (report ledger.Report, err error) {
	d, err := db.Open(ctx, db.Options{URL: "sqlite:" + path})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	bar.count(0, checks, "checks done: the structure is next")
	if err := d.CheckFile(ctx); err != nil {
		return report, err
	}
	bar.count(1, checks, "checks done: the ledger is next")
	if err := d.Migrate(ctx); err != nil {
		return report, err
	}
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		report, err = ledger.Check(ctx, tx)
		return err
	}); err != nil {
		return report, err
	}
	bar.count(checks, checks, "checks done")
	return report, d.Write(ctx, change)
}

// encrypt writes the encrypted copy to its destination, and returns the number of bytes. A file gets its final name
// only when it is complete.
func (c BackupCmd) encrypt(std Streams, copied string, bar *progress, recipients []age.Recipient) (int64, error) {
	f, err := os.Open(copied)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from := bar.reader(f, fileSize(copied), "encrypted")
	if c.To == "-" {
		return 0, encryptTo(std.Out, from, recipients)
	}
	part, err := os.CreateTemp(filepath.Dir(c.To), "."+filepath.Base(c.To)+".")
	if err != nil {
		return 0, err
	}
	defer os.Remove(part.Name())
	if err := errors.Join(encryptTo(part, from, recipients), part.Sync(), part.Close()); err != nil {
		return 0, err
	}
	size, err := os.Stat(part.Name())
	if err != nil {
		return 0, err
	}
	if err := os.Rename(part.Name(), c.To); err != nil {
		return 0, err
	}
	return size.Size(), db.Sync(c.To)
}

func encryptTo(w io.Writer, from io.Reader, recipients []age.Recipient) error {
	encrypted, err := age.Encrypt(w, recipients...)
	if err != nil {
		return err
	}
	if _, err := io.Copy(encrypted, from); err != nil {
		return err
	}
	return encrypted.Close()
}

// path returns the file of an embedded database.
func (c BackupCmd) path() (string, bool) { return embeddedPath(c.Storage) }

func embeddedPath(s app.Storage) (string, bool) {
	path, embedded := strings.CutPrefix(s.URL(), "sqlite:")
	return strings.TrimPrefix(path, "//"), embedded
}

// RestoreCmd restores an embedded database.
type RestoreCmd struct {
	app.Storage
	RecoveryFlags
	File     string `arg:"" optional:"" help:"Backup, from: stipend backup; - reads stdin."`
	Identity string `placeholder:"FILE" help:"File with the secret key of the backup, from: stipend keys backup."`
	Replica  string `placeholder:"URL" help:"Instead of a backup: the place of stipend serve --replicate-to."`
	At       string `placeholder:"TIME" help:"State of the replica to restore, such as 2026-07-01T14:30:00Z."`
	Check    bool   `help:"Only check that the backup can be restored, and keep nothing."`
}

// Help returns the details of the help.
func (RestoreCmd) Help() string {
	return `It decrypts a backup, or reads a replica, beside the database's place, migrates it to this program's schema,
and checks its structure and its ledger. It then prepares it like stipend restored: payouts are paused,
because the backup does not know which were made since, and addresses and numbers of bank files that may have
been used since are skipped. Only then the database gets its name, so that a service can never start on an
unprepared one. It never replaces a database: move the old one away, with its files -wal and -shm.`
}

// Run restores the database and prints what to do next.
func (c RestoreCmd) Run(ctx context.Context, std Streams) error {
	path, embedded := embeddedPath(c.Storage)
	if !embedded {
		return db.ErrNotEmbedded
	}
	keys, err := c.keys()
	if err != nil && !c.Check {
		return err
	}
	bar := &progress{w: std.Err}
	defer bar.end()
	read, err := c.source(std, bar)
	if err != nil {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-journal"} {
		if _, err := os.Stat(name); err == nil && !c.Check {
			return fmt.Errorf("%s exists, and may have payments that the backup lacks: stop the service, and move the file away",
				name)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(path), ".restore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	restored := filepath.Join(work, "stipend.db")
	taken, err := read(ctx, restored)
	if err != nil {
		return err
	}
	var next string
	report, err := checkCopy(ctx, restored, bar, func(ctx context.Context, tx *db.Tx) (err error) {
		if taken == "" {
			taken, err = db.Setting(ctx, tx, backupTaken)
		}
		if err != nil || c.Check {
			return err
		}
		if err := replica.Release(ctx, tx); err != nil {
			return err
		}
		next, err = c.prepare(ctx, tx, keys)
		return err
	})
	bar.end()
	if err != nil {
		return err
	}
	if c.Check {
		fmt.Fprintf(std.Out, "The state of %s can be restored: %d journals.\n", taken, report.Journals)
		return ledgerResult(std.Out, report, "Its ledger does not balance.")
	}
	if err := db.Sync(restored); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces a database that a service has just created.
	if err := os.Link(restored, path); err != nil {
		return err
	}
	if err := db.Sync(path); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "Restored the state of %s to %s: %d journals.\n%s\n", taken, path, report.Journals, next)
	return ledgerResult(std.Out, report, "The ledger does not balance. Do not resume payouts before you know why.")
}

// source checks the flags. It returns a function that writes the database of the backup or replica to a new file.
// That function returns the time of the newest transaction of a replica, or "" for a backup.
func (c RestoreCmd) source(std Streams, bar *progress) (
	read func(ctx context.Context, path string) (taken string, err error), err error,
) {
	switch {
	case (c.File == "") == (c.Replica == ""):
		return nil, errors.New("name either a backup or a --replica")
	case c.Replica == "" && c.At != "":
		return nil, errors.New("--at needs --replica: a backup has one state only")
	case c.Replica == "":
		if c.Identity == "" {
			return nil, errors.New("--identity is missing: it has the key of the backup")
		}
		identities, err := readIdentities(c.Identity)
		return func(_ context.Context, path string) (string, error) {
			return "", c.decrypt(std, bar, path, identities)
		}, err
	}
	var at time.Time
	if c.At != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, c.At); err != nil {
			return nil, fmt.Errorf("--at %q: want a time such as 2026-07-01T14:30:00Z", c.At)
		}
	}
	return func(ctx context.Context, path string) (string, error) {
		until, err := replica.Restore(ctx, c.Replica, path, at, slog.New(slog.NewTextHandler(std.Err, nil)),
			func(done, total int64) { bar.share(done, total, "restored") })
		return until.UTC().Format(time.RFC3339), err
	}, replica.Check(c.Replica)
}

func readIdentities(name string) ([]age.Identity, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	defer f.Close()
	identities, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("--identity: %s has no secret key of age: %w", name, err)
	}
	return identities, nil
}

// decrypt writes the database of the backup to a new file.
func (c RestoreCmd) decrypt(std Streams, bar *progress, path string, identities []age.Identity) error {
	from := std.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	plain, err := age.Decrypt(bar.reader(from, fileSize(c.File), "decrypted"), identities...)
	if err != nil {
		return fmt.Errorf("the backup cannot be decrypted: is it complete, and is the key its own? (%w)", err)
	}
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, plain)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("the backup is damaged or incomplete: %w", err)
	}
	return nil
}
