package backoffice

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/screening"
)

// ExportCase is the action of exporting the case file of a company or a person.
const ExportCase = "case.export"

// ExportRecord is the action of exporting the travel rule record of a payout.
const ExportRecord = "travel_rule.export"

// ExportedRecord records who exported the travel rule record of a payout, and why.
func (s *Service) ExportedRecord(ctx context.Context, tx *db.Tx, by Session, companyID, recordID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: ExportRecord, CompanyID: companyID, ObjectID: recordID,
		Reason: reason})
}

// CaseFile is what the operator knows about a company or a person: verifications, screening matches, notes, actions of
// staff, and payments. It has no documents and no sealed personal data.
type CaseFile struct {
	ID, Name, Email, Country, Status, Verification string
	Created                                        time.Time
	Verifications                                  []Verification
	Hits                                           []screening.Hit
	Notes                                          []Note
	Actions                                        []AuditEntry
	Payments                                       []Found // newest, of a company
}

// Verification is one attempt to verify the subject of a case file, with its changes of state.
type Verification struct {
	kyc.Case
	Changes []db.Change
}

// ExportCase returns the case file of a company or a person, and records who exported it and why.
func (s *Service) ExportCase(ctx context.Context, tx *db.Tx, by Session, subjectID, reason string) (f CaseFile,
	err error) {
	if reason, err = reasonOf(reason); err != nil {
		return f, err
	}
	if identity.IsUser(subjectID) {
		u, err := identity.GetUser(ctx, tx, nil, subjectID)
		if err != nil {
			return f, err
		}
		f = CaseFile{ID: u.ID, Name: u.Name(), Email: u.Email, Country: u.Country, Verification: u.KYCStatus,
			Created: u.Created}
	} else {
		c, err := identity.CompanyByID(ctx, tx, subjectID)
		if err != nil {
			return f, err
		}
		f = CaseFile{ID: c.ID, Name: c.Name, Email: c.Email, Country: c.Country, Status: c.Status,
			Verification: c.KYBStatus, Created: c.Created}
		if f.Payments, err = FindPayments(ctx, tx, c.ID); err != nil {
			return f, err
		}
	}
	cases, err := kyc.Cases(ctx, tx, subjectID)
	if err != nil {
		return f, err
	}
	for _, c := range cases {
		changes, err := db.Changes(ctx, tx, c.CompanyID, c.ID)
		if err != nil {
			return f, err
		}
		f.Verifications = append(f.Verifications, Verification{c, changes})
	}
	if f.Hits, err = screening.HitsAbout(ctx, tx, subjectID, MostItems); err != nil {
		return f, err
	}
	if f.Notes, err = s.Notes(ctx, tx, subjectID); err != nil {
		return f, err
	}
	if f.Actions, err = auditAbout(ctx, tx, subjectID, MostItems); err != nil {
		return f, err
	}
	return f, record(ctx, tx, by.Member, AuditEntry{Action: ExportCase, CompanyID: subjectID, ObjectID: subjectID,
		Reason: reason})
}
