// Package screening compares those who are paid, and those who pay, with published sanctions lists.
//
// A list is a file in a format that its authority publishes (see [Parse]); names are compared as people write them, in any
// order, script and spelling (see [List.Match]), and addresses on public chains exactly. What a subject and an entry have in
// common is a hit. A hit is open until a person clears it, with a reason, or confirms it; while one is open or confirmed, its
// subject is not paid. A cleared hit stays cleared for the same name or address and the same entry.
//
// The package knows subjects by id and what is compared, and nothing else of them. Who is stopped, and how, is for the owner of
// the payee and of the payment.
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

// State is where a hit stands.
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

// Reason is what partners and payees are told of a hit: no more than that somebody looks at it. Whoever is on a list must not
// learn from us that they are.
const Reason = "under_review"

// What a caller may be told.
var (
	ErrUnderReview = apierr.New(apierr.Conflict, "invalid_state", "This recipient is under review. They cannot be activated before it has ended.")
	// ErrUnavailable says that there is no list, or only an old one: nobody can be screened.
	ErrUnavailable = fmt.Errorf("screening: no current sanctions list: %w", job.ErrRetryLater)
	// ErrNoHit says that no hit has the id, or that it is decided in the same way already.
	ErrNoHit = errors.New("screening: no such hit waits for this decision")
)

// Subject is whom to look for.
type Subject struct {
	ID        string
	Names     []string
	Addresses []string
}

// Hit is one thing that a subject and an entry have in common.
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

// Screen looks for subjects of a company on the lists, notes what is new, and says who of the company's may not be paid: those
// with a hit that is open or confirmed, also when it was found long ago. It returns ErrUnavailable when there is no current list.
func (s *Screener) Screen(ctx context.Context, tx *db.Tx, companyID string, subjects []Subject) (held map[string]bool, err error) {
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
	if held, err = selectBlocked(ctx, tx, companyID); err != nil || len(ids) == 0 {
		return held, err
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
				states[at], held[id] = Open, true
			}
		}
	}
	return held, nil
}

// match is what a subject has in common with the lists, each entry once for each name and address.
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

// digest stands for a name, in whatever order and spelling of the same letters.
func digest(name string) string {
	sum := sha256.Sum256([]byte(strings.Join(fold(name), " ")))
	return hex.EncodeToString(sum[:16])
}

// Blocked says whether a subject has a hit that is not cleared.
func Blocked(ctx context.Context, tx *db.Tx, companyID, subjectID string) (bool, error) {
	hits, err := selectFor(ctx, tx, companyID, []string{subjectID})
	for i := range hits {
		if hits[i].State != Cleared {
			return true, err
		}
	}
	return false, err
}

// Decide clears or confirms a hit, open or, to clear it, confirmed before. It says ErrNoHit when there is none that waits for
// it. Whoever is told to go on by a decision looks at [Blocked]: other hits of the subject may be open.
func Decide(ctx context.Context, tx *db.Tx, hitID string, to State, by, reason string) (Hit, error) {
	h, err := decide(ctx, tx, hitID, to, by, reason)
	if err != nil {
		return Hit{}, err
	}
	db.History(tx, h.CompanyID, h.ID, h.Version, "", string(to), by+": "+reason)
	return h, nil
}

// Get reads a hit of any company. It says ErrNoHit when there is none.
func Get(ctx context.Context, tx *db.Tx, hitID string) (Hit, error) { return find(ctx, tx, hitID) }

// Hits reads hits of all companies, the newest first: those in one state, or all for "".
func Hits(ctx context.Context, tx *db.Tx, state State, limit int) ([]Hit, error) {
	return selectHits(ctx, tx, state, limit)
}
