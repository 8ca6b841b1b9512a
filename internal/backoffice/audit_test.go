package backoffice_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// act records actions of the command line at the same time.
func act(t *testing.T, d *db.DB, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				for _, half := range []string{"first", "second"} {
					if err := backoffice.RecordCommand(ctx, tx, "test", fmt.Sprint(i), half+" <half>"); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// export returns the log as lines, and the error of its check.
func export(t *testing.T, d *db.DB) (lines []string, err error) {
	t.Helper()
	_, err = backoffice.VerifyAudit(t.Context(), d, func(a backoffice.AuditEntry) error {
		line, err := json.Marshal(a)
		lines = append(lines, string(line))
		return err
	})
	return lines, err
}

func verifyLines(lines []string) error {
	_, err := backoffice.VerifyAuditFile(strings.NewReader(strings.Join(lines, "\n")),
		func(backoffice.AuditEntry) error { return nil })
	return err
}

// Entries that are written at the same time form one chain, which verifies in the database and in an export.
func TestAuditLogIsAChain(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		act(t, d, 20)
		lines, err := export(t, d)
		testkit.Check(t, err)
		if len(lines) != 40 {
			t.Fatalf("%d entries", len(lines))
		}
		testkit.Check(t, verifyLines(lines))
		testkit.Check(t, verifyLines(lines[10:20])) // a part of the log
		previous := ""
		hash := regexp.MustCompile(`,"hash":"([0-9a-f]{64})"}$`)
		for _, line := range lines {
			// What the documentation says: the hash of the line without the member hash.
			sum := sha256.Sum256([]byte(hash.ReplaceAllString(line, "}")))
			if got := hash.FindStringSubmatch(line)[1]; got != hex.EncodeToString(sum[:]) {
				t.Fatalf("the hash of %s is not documented", line)
			}
			if !strings.Contains(line, `"previous":"`+previous+`"`) {
				t.Fatalf("%s does not name %s", line, previous)
			}
			previous = hex.EncodeToString(sum[:])
		}
	})
}

// A change of an export is found, also if the hash of the changed line is computed again.
func TestChangedExportIsFound(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		act(t, d, 3)
		lines, err := export(t, d)
		testkit.Check(t, err)
		changed := strings.Replace(lines[2], "half", "hand", 1)
		body, _, _ := strings.Cut(changed, `,"hash"`)
		sum := sha256.Sum256([]byte(body + "}"))
		again := fmt.Sprintf(`%s,"hash":"%x"}`, body, sum)
		for what, forged := range map[string][]string{
			"a changed entry":           {lines[0], lines[1], changed, lines[3]},
			"a changed entry with hash": {lines[0], lines[1], again, lines[3]},
			"a missing entry":           {lines[0], lines[1], lines[3]},
			"an entry twice":            {lines[0], lines[1], lines[1], lines[2]},
			"another order":             {lines[1], lines[0]},
		} {
			if err := verifyLines(forged); !errors.Is(err, backoffice.ErrAudit) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A change in the database is found, also the removal of the newest and of the oldest entries.
func TestChangedAuditLogIsFound(t *testing.T) {
	for _, change := range []string{
		"DELETE FROM settings WHERE key = 'audit.sequence'",
		"DELETE FROM staff_actions WHERE sequence > 4; DELETE FROM settings WHERE key = 'audit.sequence'",
		"UPDATE staff_actions SET reason = 'another' WHERE sequence = 3",
		"UPDATE staff_actions SET at = at + 1 WHERE sequence = 3",
		"DELETE FROM staff_actions WHERE sequence = 3",
		"DELETE FROM staff_actions WHERE sequence = 1",
		"DELETE FROM staff_actions WHERE sequence > 4",
		"DELETE FROM staff_actions",
	} {
		t.Run(change, func(t *testing.T) {
			dbtest.Run(t, func(t *testing.T, d *db.DB) {
				act(t, d, 3)
				testkit.Check(t, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					for statement := range strings.SplitSeq(change, "; ") {
						if _, err := tx.Exec(ctx, statement); err != nil {
							return err
						}
					}
					return nil
				}))
				if _, err := export(t, d); !errors.Is(err, backoffice.ErrAudit) {
					t.Errorf("the check says %v", err)
				}
			})
		})
	}
}

// An export that ends in the middle of a line is refused.
func TestTruncatedExportIsRefused(t *testing.T) {
	if _, err := backoffice.VerifyAuditFile(bytes.NewReader([]byte(`{"sequence":1`)),
		func(backoffice.AuditEntry) error { return nil }); err == nil {
		t.Error("half a line is an entry")
	}
}
