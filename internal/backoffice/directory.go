package backoffice

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Actions about companies and people.
const (
	// ChangeFees changes the contract terms of a company. It needs two members of staff.
	ChangeFees = "company.fees"
	AddNote    = "note.add"
	// SignOut ends all sessions of a person, and Unlock lets a person try a password and a code again at once.
	SignOut = "support.sign_out"
	Unlock  = "support.unlock"
	// RemoveFactor removes the authenticator and the recovery codes of a person who lost them. It needs two members of
	// staff, and the person gets a mail.
	RemoveFactor = "support.remove_factor"
)

// ReasonCodes are the codes for reasons. Each support action has one, besides the reason in words.
var ReasonCodes = []string{"customer_request", "lost_access", "suspected_takeover", "fraud", "legal_order",
	"correction", "complaint", "other"}

var (
	errReasonCode = apierr.New(apierr.Invalid, "invalid_parameter", "Choose a reason.")
	errFees       = apierr.New(apierr.Invalid, "invalid_parameter",
		"Enter whole hundredths of a percent: fees from 0 to 5000, the tolerance from 0 to 500.")
	errFeesChanged = apierr.New(apierr.Conflict, "invalid_state",
		"The company's fees were changed meanwhile. Drop this request and create a new one.")
	errNote = apierr.New(apierr.Invalid, "invalid_parameter", "Enter a note of at most 4000 characters.")
)

// maxNote is the maximum length of a note in bytes.
const maxNote = 4000

// Note is a note of staff about a company or a person. Its text is sealed in the database.
type Note struct {
	ID, CompanyID, Name, Text string
	At                        time.Time

	sealed string
}

func noteContext(id string) identity.SealContext {
	return identity.SealContext{Table: "staff_notes", Column: "sealed", Row: id}
}

// AddNote adds a note about a company or a person.
func (s *Service) AddNote(ctx context.Context, tx *db.Tx, by Session, subjectID, text string) error {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxNote {
		return errNote.At("body", "")
	}
	if _, err := nameOf(ctx, tx, subjectID); err != nil {
		return err
	}
	n := Note{ID: tx.NewID("note"), CompanyID: subjectID, Name: by.Member.Name, At: tx.Now()}
	var err error
	if n.sealed, err = s.deps.Sealer.Seal(noteContext(n.ID), []byte(text)); err != nil {
		return err
	}
	if err := insertNote(ctx, tx, n); err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: AddNote, CompanyID: subjectID, ObjectID: n.ID})
}

// Notes returns the newest notes about a company or a person, newest first.
func (s *Service) Notes(ctx context.Context, tx *db.Tx, subjectID string) ([]Note, error) {
	all, err := notesAbout(ctx, tx, subjectID, MostItems)
	for i := range all {
		text, err := s.deps.Sealer.Open(noteContext(all[i].ID), all[i].sealed)
		if err != nil {
			return nil, err
		}
		all[i].Text = string(text)
	}
	return all, err
}

// RequestFees requests that the terms of a company are changed, for what it creates afterwards.
func (s *Service) RequestFees(ctx context.Context, tx *db.Tx, by Session, companyID string, to identity.Fees,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if min(to.FeeBps, to.PremiumBps, to.ToleranceBps) < 0 || max(to.FeeBps, to.PremiumBps) > 5000 ||
		to.ToleranceBps > 500 {
		return errFees.At("body", "")
	}
	c, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return err
	}
	if c.Fees() == to {
		return errNothing
	}
	return request(ctx, tx, by, approval.Request{Action: ChangeFees, CompanyID: c.ID, ObjectID: c.ID,
		Target: feesTarget(c.Fees(), to), Reason: reason})
}

// feesFormat is the target of a request to change fees: fee, premium and tolerance before and after, in basis points.
const feesFormat = "%d/%d/%d → %d/%d/%d"

func feesTarget(from, to identity.Fees) string {
	return fmt.Sprintf(feesFormat, from.FeeBps, from.PremiumBps, from.ToleranceBps, to.FeeBps, to.PremiumBps,
		to.ToleranceBps)
}

// changeFees performs an approved request. It fails if the terms are not those that the request was made for.
func changeFees(ctx context.Context, tx *db.Tx, r approval.Request) error {
	var from, to identity.Fees
	if _, err := fmt.Sscanf(r.Target, feesFormat, &from.FeeBps, &from.PremiumBps, &from.ToleranceBps, &to.FeeBps,
		&to.PremiumBps, &to.ToleranceBps); err != nil {
		return err
	}
	done, err := identity.SetFees(ctx, tx, r.CompanyID, from, to)
	if err == nil && !done {
		err = errFeesChanged
	}
	return err
}

// SupportPerson performs a support action on a person's account, or requests it if it needs two members of staff. code
// is one of ReasonCodes.
func (s *Service) SupportPerson(ctx context.Context, tx *db.Tx, by Session, action, userID, code, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if !isReasonCode(code) {
		return errReasonCode.At("body", "/reason_code")
	}
	u, err := identity.GetUser(ctx, tx, nil, userID)
	if err != nil {
		return err
	}
	switch action {
	case SignOut:
		err = session.EndAll(ctx, tx, u.ID)
	case Unlock:
		err = session.Unlock(ctx, tx, u.ID, u.Email)
	case RemoveFactor:
		has, err := auth.HasFactor(ctx, tx, u.ID)
		if err == nil && !has {
			err = errNothing
		}
		if err != nil {
			return err
		}
		return request(ctx, tx, by, approval.Request{Action: action, CompanyID: u.ID, ObjectID: u.ID, Target: code,
			Reason: reason})
	case CloseAccount:
		if u.Closed {
			return errNothing
		}
		if err := checkNoMoney(ctx, tx, u.ID); err != nil {
			return err
		}
		return request(ctx, tx, by, approval.Request{Action: action, CompanyID: u.ID, ObjectID: u.ID, Target: code,
			Reason: reason})
	default:
		return apierr.NotFoundErr
	}
	if err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: action, CompanyID: u.ID, ObjectID: u.ID, Code: code,
		Reason: reason})
}

func isReasonCode(code string) bool {
	for _, c := range ReasonCodes {
		if c == code {
			return true
		}
	}
	return false
}

// removeFactor performs an approved request. It also ends the person's sessions.
func removeFactor(ctx context.Context, tx *db.Tx, r approval.Request) error {
	u, err := identity.GetUser(ctx, tx, nil, r.ObjectID)
	if err != nil {
		return err
	}
	if err := auth.Remove(ctx, tx, auth.Person{User: u}); err != nil {
		return err
	}
	return session.EndAll(ctx, tx, u.ID)
}
