// Package screening compares payees and payers with published sanctions lists.
//
// A list is a file in a format that its authority publishes (see [Parse]). Names are compared regardless of word
// order, script and spelling (see [List.Match]), and blockchain addresses exactly. A match of a subject and an entry
// is a hit. A hit is open until staff clear it, with a reason, or confirm it; while it is open or confirmed, its
// subject is blocked. A cleared hit stays cleared for the same name or address and the same entry.
//
// The package stores only the IDs of subjects, and their hits. The packages of payees and payments enforce a block.
// Without a current list, screening fails, so no payment is made.
//
//	open → cleared
//	  └──→ confirmed → cleared
package screening

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// State is the state of a hit.
type State string

// The states of a hit.
const (
	Open      State = "open"
	Cleared   State = "cleared"
	Confirmed State = "confirmed"
)

// Kinds of hits.
const (
	KindName    = "name"
	KindAddress = "address"
)

// Reason is the hold reason that is shown to companies and payees, who must not learn that a subject is on a
// sanctions list.
const Reason = "under_review"

// Errors of this package.
var (
	ErrUnderReview = apierr.New(apierr.Conflict, "invalid_state",
		"This recipient is under review. Activate them after the review has ended.")
	// ErrUnavailable means that a list is missing or outdated, so that no subject can be screened.
	ErrUnavailable = fmt.Errorf("screening: no current sanctions list: %w", job.ErrRetryLater)
	// ErrNoHit means that the hit does not exist or its state does not allow the decision.
	ErrNoHit = errors.New("screening: no hit with this ID waits for this decision")
)

// Subject is a payee, company or payer, with the names and addresses to compare.
type Subject struct {
	ID        string
	Names     []string
	Addresses []string
}

// Hit is a match of a subject and an entry of a list.
type Hit struct {
	CompanyID, ID, SubjectID string
	Kind                     string
	Matched                  string // digest of the folded name, or the address
	EntryID, EntryName       string
	Programs                 string
	Score                    int // 1 to 100
	State                    State
	Reason, DecidedBy        string
	Version                  int64
	CreatedAt, DecidedAt     time.Time
}

// Screen compares subjects of a company with the lists and stores new hits. It returns the IDs of all blocked
// subjects of the company: all subjects with an open or confirmed hit, including hits found earlier. It returns
// ErrUnavailable if a list is missing or outdated.
func (s *Screener) Screen(ctx context.Context, tx *db.Tx, companyID string,
	subjects []Subject) (blocked map[string]bool, err error) {
	if err := s.Current(tx.Now()); err != nil {
		return nil, err
	}
	found := map[string][]Hit{}
	var ids []string
	for i := range subjects {
		if hits := s.match(&subjects[i]); len(hits) > 0 {
			found[subjects[i].ID] = append(found[subjects[i].ID], hits...)
			ids = append(ids, subjects[i].ID)
		}
	}
	if blocked, err = selectBlocked(ctx, tx, companyID); err != nil || len(ids) == 0 {
		return blocked, err
	}
	known, err := selectFor(ctx, tx, companyID, ids)
	if err != nil {
		return nil, err
	}
	type key struct{ subject, kind, matched, entry string }
	states := map[key]State{}
	for i := range known {
		h := &known[i]
		states[key{h.SubjectID, h.Kind, h.Matched, h.EntryID}] = h.State
	}
	for id, hits := range found {
		for i := range hits {
			h := &hits[i]
			at := key{id, h.Kind, h.Matched, h.EntryID}
			if _, seen := states[at]; !seen {
				h.CompanyID, h.ID, h.State, h.Version, h.CreatedAt = companyID, tx.NewID("hit"), Open, 1, tx.Now()
				if err := insert(ctx, tx, h); err != nil {
					return nil, err
				}
				db.History(tx, companyID, h.ID, h.Version, "", string(Open), "found")
				states[at], blocked[id] = Open, true
			}
		}
	}
	return blocked, nil
}

// match returns the hits of a subject, one for each pair of an entry and a name or address.
func (s *Screener) match(subject *Subject) []Hit {
	var hits []Hit
	seen := map[string]bool{}
	add := func(kind, matched string, m Match) {
		if at := kind + matched + "\x00" + m.Entry.ID; !seen[at] {
			seen[at] = true
			hits = append(hits, Hit{
				SubjectID: subject.ID, Kind: kind, Matched: matched, EntryID: m.Entry.ID, EntryName: m.Entry.Name,
				Programs: strings.Join(m.Entry.Programs, ", "), Score: m.Score,
			})
		}
	}
	for _, list := range s.lists() {
		for _, name := range subject.Names {
			for _, m := range list.Match(name, s.threshold) {
				add(KindName, digest(name), m)
			}
		}
		for _, address := range subject.Addresses {
			for _, m := range list.MatchAddress(address) {
				add(KindAddress, address, m)
			}
		}
	}
	return hits
}

// digest returns a digest of the folded words of a name.
func digest(name string) string {
	sum := sha256.Sum256([]byte(strings.Join(fold(name), " ")))
	return hex.EncodeToString(sum[:16])
}

// Blocked reports whether a subject has a hit that is not cleared.
func Blocked(ctx context.Context, tx *db.Tx, companyID, subjectID string) (bool, error) {
	hits, err := selectFor(ctx, tx, companyID, []string{subjectID})
	for i := range hits {
		if hits[i].State != Cleared {
			return true, err
		}
	}
	return false, err
}

// Decide clears or confirms an open hit, or clears a confirmed hit. For any other decision it returns ErrNoHit. The
// subject may have other hits; see [Blocked].
func Decide(ctx context.Context, tx *db.Tx, hitID string, to State, by, reason string) (Hit, error) {
	h, err := decide(ctx, tx, hitID, to, by, reason)
	if err != nil {
		return Hit{}, err
	}
	db.History(tx, h.CompanyID, h.ID, h.Version, "", string(to), by+": "+reason)
	return h, nil
}

// Get returns a hit of any company, or ErrNoHit.
func Get(ctx context.Context, tx *db.Tx, hitID string) (Hit, error) { return find(ctx, tx, hitID) }

// Hits returns hits of all companies, newest first: hits in one state, or all hits for "".
func Hits(ctx context.Context, tx *db.Tx, state State, limit int) ([]Hit, error) {
	return selectHits(ctx, tx, state, limit)
}
