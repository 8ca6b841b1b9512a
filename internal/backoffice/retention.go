package backoffice

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payee"
)

// Actions about the end of a relationship and the data of people and companies.
const (
	// PlaceHold places a legal hold, which stops the erasure of data. It needs one member of staff, and ReleaseHold two.
	PlaceHold   = "hold.place"
	ReleaseHold = "hold.release"
	// CloseCompany and CloseAccount close the account of a company or a person for good. They need two members of staff.
	CloseCompany = "company.close"
	CloseAccount = "support.close"
	// Erase erases the data of a person or a company. The retention job and the command line do it.
	Erase = "data.erase"
)

var (
	errHold = apierr.New(apierr.Invalid, "invalid_parameter",
		"Enter the ID of a company (com_…), a person (usr_…) or a recipient without an account (rec_…).")
	errHeld  = apierr.New(apierr.Conflict, "invalid_state", "There is a legal hold already.")
	errMoney = apierr.New(apierr.Conflict, "invalid_state",
		"There is money left: a balance, or payments that are not finished. Pay it out before you close the account.")
)

// checkSubject returns an error unless a company, a person or a recipient without an account has the ID.
func checkSubject(ctx context.Context, tx *db.Tx, id string) (err error) {
	switch {
	case strings.HasPrefix(id, "rec_"):
		_, err = payee.CompanyOfRecipient(ctx, tx, id)
	case strings.HasPrefix(id, "usr_"), strings.HasPrefix(id, "com_"):
		_, err = nameOf(ctx, tx, id)
	default:
		err = errHold.At("body", "/subject_id")
	}
	return err
}

// PlaceHold places a legal hold on a company, a person or a recipient.
func (s *Service) PlaceHold(ctx context.Context, tx *db.Tx, by Session, subjectID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	subjectID = strings.TrimSpace(subjectID)
	if err := checkSubject(ctx, tx, subjectID); err != nil {
		return err
	}
	placed, err := kyc.PlaceHold(ctx, tx, kyc.Hold{SubjectID: subjectID, By: by.Member.Name, Reason: reason})
	if err == nil && !placed {
		err = errHeld
	}
	if err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: PlaceHold, CompanyID: subjectID, ObjectID: subjectID,
		Reason: reason})
}

// RequestEnd requests that a legal hold is released, or that the account of a company is closed.
func (s *Service) RequestEnd(ctx context.Context, tx *db.Tx, by Session, action, subjectID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	subjectID = strings.TrimSpace(subjectID)
	switch action {
	case ReleaseHold:
		h, err := kyc.HoldOf(ctx, tx, subjectID)
		if err == nil && h.SubjectID == "" {
			err = errNothing
		}
		if err != nil {
			return err
		}
	case CloseCompany:
		if err := checkCompanyEnds(ctx, tx, subjectID); err != nil {
			return err
		}
	default:
		return apierr.NotFoundErr
	}
	return request(ctx, tx, by, approval.Request{Action: action, CompanyID: subjectID, ObjectID: subjectID,
		Reason: reason})
}

// checkCompanyEnds returns an error unless a company's account can be closed.
func checkCompanyEnds(ctx context.Context, tx *db.Tx, companyID string) error {
	c, err := identity.CompanyByID(ctx, tx, companyID)
	if err == nil && c.Status == identity.CompanyClosed {
		err = errNothing
	}
	if err == nil {
		err = checkNoMoney(ctx, tx, companyID)
	}
	return err
}

// checkNoMoney returns an error if a company or a person has money or a debt.
func checkNoMoney(ctx context.Context, tx *db.Tx, ownerID string) error {
	has, err := ledger.HasMoney(ctx, tx, ownerID)
	if err == nil && has {
		err = errMoney
	}
	if err == nil {
		err = ledger.CheckNoDebt(ctx, tx, ownerID)
	}
	return err
}

// endHold performs an approved request.
func endHold(ctx context.Context, tx *db.Tx, r approval.Request) error {
	done, err := kyc.ReleaseHold(ctx, tx, r.ObjectID)
	if err == nil && !done {
		err = errNothing
	}
	return err
}

// closeCompany performs an approved request. Nobody can sign in for the company or use its keys to change anything.
func closeCompany(ctx context.Context, tx *db.Tx, r approval.Request) error {
	if err := checkCompanyEnds(ctx, tx, r.CompanyID); err != nil {
		return err
	}
	done, err := identity.CloseCompany(ctx, tx, r.CompanyID)
	if err == nil && !done {
		err = errNothing
	}
	return err
}

// closeAccount performs an approved request. It also ends the person's sessions.
func closeAccount(ctx context.Context, tx *db.Tx, r approval.Request) error {
	if err := checkNoMoney(ctx, tx, r.ObjectID); err != nil {
		return err
	}
	done, err := identity.CloseUser(ctx, tx, r.ObjectID)
	if err == nil && !done {
		err = errNothing
	}
	if err != nil {
		return err
	}
	return session.EndAll(ctx, tx, r.ObjectID)
}

// RetentionRun is what the last run of the retention job did.
type RetentionRun struct {
	At      time.Time         `json:"at"`
	Classes []RetentionResult `json:"classes"`
}

// RetentionResult is what a run did with one class of data.
type RetentionResult struct {
	Class    string `json:"class"`
	Days     int    `json:"days"`    // period of the class
	Deleted  int64  `json:"deleted"` // rows, or people and companies whose data was erased
	Retained int64  `json:"retained"`
	Failed   bool   `json:"failed,omitempty"` // the run could not be completed; the log has the error
}

// retentionKey is the setting with the last run of the retention job.
const retentionKey = "retention.last"

// StoreRetention stores the last run of the retention job.
func StoreRetention(ctx context.Context, tx *db.Tx, run RetentionRun) error {
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	return db.SetSetting(ctx, tx, retentionKey, string(text))
}

// LastRetention returns the last run of the retention job, or a zero RetentionRun.
func LastRetention(ctx context.Context, tx *db.Tx) (run RetentionRun, err error) {
	text, err := db.Setting(ctx, tx, retentionKey)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &run)
	}
	return run, err
}
