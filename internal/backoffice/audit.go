package backoffice

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// AuditEntry is an entry of the audit log. Exported, it is a line of JSON with its members in this order. Hash is the
// SHA-256 of the line without the member hash, and Previous is the hash of the entry before, so the entries form a
// chain: nobody can change, remove or insert one without changing all hashes after it.
type AuditEntry struct {
	Sequence  int64     `json:"sequence"` // 1, 2, 3, without gaps
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	StaffID   string    `json:"staff_id"` // "" for the command line
	Name      string    `json:"name"`
	Action    string    `json:"action"`
	CompanyID string    `json:"company_id"`
	ObjectID  string    `json:"object_id"`
	Code      string    `json:"reason_code"` // of a support action, one of ReasonCodes; "" for others
	Reason    string    `json:"reason"`
	Previous  string    `json:"previous"` // "" of the first entry
	Hash      string    `json:"hash,omitempty"`
}

// ErrAudit means that the audit log was changed after it was written.
var ErrAudit = errors.New("the audit log is not as it was written")

// computeHash returns the hash that an entry must have.
func (a AuditEntry) computeHash() (string, error) {
	a.Hash, a.At = "", a.At.UTC()
	line, err := json.Marshal(a)
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:]), err
}

// record adds an entry to the audit log. It returns ErrRole, so that the transaction is rolled back, if the role of a
// member of staff does not permit the action: since every action is recorded, none can avoid the check.
func record(ctx context.Context, tx *db.Tx, by StaffMember, a AuditEntry) (err error) {
	if by.ID != "" && !by.May(a.Action) {
		return ErrRole
	}
	if a.Sequence, err = db.AddToSetting(ctx, tx, auditSequence, 1); err != nil {
		return err
	}
	if a.Previous, err = auditHash(ctx, tx, a.Sequence-1); err != nil {
		return err
	}
	a.ID, a.At, a.StaffID, a.Name = tx.NewID("act"), db.Time(db.Micros(tx.Now())), by.ID, by.Name
	if a.Hash, err = a.computeHash(); err != nil {
		return err
	}
	return insertAudit(ctx, tx, a)
}

// AuditChain checks entries of an audit log one after the other.
type AuditChain struct {
	Entries  int64  // that were checked
	Sequence int64  // of the last one
	Hash     string // of the last one
}

// Add checks the next entry. The first may have any number, since an export may begin in the middle. It returns
// ErrAudit if the entry was changed or does not follow the last one.
func (c *AuditChain) Add(a AuditEntry) error {
	want, err := a.computeHash()
	switch {
	case err != nil:
		return err
	case a.Hash != want:
		return fmt.Errorf("%w: entry %d (%s) has another content than its hash says", ErrAudit, a.Sequence, a.ID)
	case c.Entries == 0 && a.Sequence == 1 && a.Previous != "":
		return fmt.Errorf("%w: entry 1 names an entry before it", ErrAudit)
	case c.Entries > 0 && a.Sequence != c.Sequence+1:
		return fmt.Errorf("%w: entry %d follows entry %d", ErrAudit, a.Sequence, c.Sequence)
	case c.Entries > 0 && a.Previous != c.Hash:
		return fmt.Errorf("%w: entry %d was not written after this entry %d", ErrAudit, a.Sequence, c.Sequence)
	}
	c.Entries, c.Sequence, c.Hash = c.Entries+1, a.Sequence, a.Hash
	return nil
}

// auditPage is the number of entries that are read at a time.
const auditPage = 1000

// VerifyAudit checks the audit log in the database and passes each entry to visit. It returns
// ErrAudit if an entry was changed, or if entries are missing, also the newest ones.
func VerifyAudit(ctx context.Context, d *db.DB, visit func(AuditEntry) error) (chain AuditChain, err error) {
	for {
		var page []AuditEntry
		var newest string
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			if newest, err = db.Setting(ctx, tx, auditSequence); err != nil {
				return err
			}
			page, err = AuditAfter(ctx, tx, chain.Sequence, auditPage)
			return err
		}); err != nil {
			return chain, err
		}
		for _, a := range page {
			if chain.Entries == 0 && a.Sequence != 1 {
				return chain, fmt.Errorf("%w: it begins with entry %d", ErrAudit, a.Sequence)
			}
			if err := chain.Add(a); err != nil {
				return chain, err
			}
			if err := visit(a); err != nil {
				return chain, err
			}
		}
		if len(page) == auditPage {
			continue
		}
		switch {
		case newest == "" && chain.Entries > 0:
			return chain, fmt.Errorf("%w: there are entries, but the number of those that were written is missing", ErrAudit)
		case newest != "" && newest != strconv.FormatInt(chain.Sequence, 10):
			return chain, fmt.Errorf("%w: the newest entry is %d, but %s were written", ErrAudit, chain.Sequence, newest)
		}
		return chain, nil
	}
}

// VerifyAuditFile checks an exported audit log, without a database, and passes each entry to visit.
func VerifyAuditFile(r io.Reader, visit func(AuditEntry) error) (chain AuditChain, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return chain, fmt.Errorf("line %d is not an entry: %w", chain.Entries+1, err)
		}
		if err := chain.Add(a); err != nil {
			return chain, err
		}
		if err := visit(a); err != nil {
			return chain, err
		}
	}
	return chain, lines.Err()
}
