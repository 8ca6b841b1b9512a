package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	retryEvery = time.Hour // time between attempts to create a payroll that cannot be created yet
	atOnce     = 100       // schedules that RunDue reads in one query
)

// RunDue creates the payrolls that are due, each in a transaction of its own. If a schedule was due several times
// while no process ran, each of its runs gets a payroll.
func (s *Service) RunDue(ctx context.Context, d *db.DB) error {
	var failed error
	seen := map[string]bool{}
	for {
		var all []key
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			all, err = due(ctx, tx, atOnce)
			return err
		}); err != nil {
			return err
		}
		progress := false
		for _, k := range all {
			if seen[k.id] {
				continue // it failed in this call; the next call tries again
			}
			progress = true
			if err := s.runAll(ctx, d, k); err != nil {
				seen[k.id], failed = true, errors.Join(failed, fmt.Errorf("schedule %s: %w", k.id, err))
			}
		}
		if !progress || ctx.Err() != nil {
			return failed
		}
	}
}

// runAll creates all due payrolls of one schedule.
func (s *Service) runAll(ctx context.Context, d *db.DB, k key) error {
	for {
		more := false
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			more, err = s.runNext(ctx, tx, k)
			return err
		})
		if f, isFault := apierr.As(err); isFault && f.Kind != apierr.Internal {
			// The failed transaction is rolled back, so another transaction records the reason.
			return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return s.wait(ctx, tx, k, f) })
		}
		if err != nil || !more {
			return err
		}
	}
}

// lockDue locks a schedule. due reports whether its next run is due.
func lockDue(ctx context.Context, tx *db.Tx, k key) (n Schedule, due bool, err error) {
	n, err = lock(ctx, tx, k.company, k.id)
	return n, err == nil && n.State == Active && !n.nextAt.IsZero() && !tx.Now().Before(n.nextAt), err
}

// runNext creates the payroll of the next run of a schedule, unless the run is skipped or not due. more reports
// whether another run may be due.
func (s *Service) runNext(ctx context.Context, tx *db.Tx, k key) (more bool, err error) {
	n, due, err := lockDue(ctx, tx, k)
	if err != nil || !due {
		return false, err
	}
	r, err := n.run(ctx, tx, n.Next)
	if err != nil {
		return false, err
	}
	if r.State == Planned || r.State == Waiting {
		if err := s.create(ctx, tx, &n, &r); err != nil {
			return false, err
		}
	}
	if !n.plan(n.Next.AddDate(0, 0, 1)) {
		n.State = Ended
		return false, n.step(ctx, tx, Active, webhook.ScheduleStatusUpdate)
	}
	return true, n.touch(ctx, tx)
}

// create creates the payroll of a run and mails the company's administrators.
func (s *Service) create(ctx context.Context, tx *db.Tx, n *Schedule, r *Run) error {
	to, creator := n.ToPay, n.CreatedBy
	if r.ToPay != nil {
		to = r.ToPay
		if r.ChangedBy != creator {
			creator = ""
		}
	}
	by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: n.CompanyID}
	if creator != "" {
		by.Kind, by.UserID = identity.KindSession, creator
	}
	params := n.params(to)
	params.Key = n.ID + "/" + Text(r.Day)
	if !r.PayDate.Before(workday.On(tx.Now(), n.Calendar.Zone)) { // a run that is late is paid as soon as it is funded
		params.PayDay = payroll.PayDay{Date: Text(r.PayDate), TimeZone: n.Calendar.Zone.String()}
	}
	p, err := s.payroll.Create(ctx, tx, by, params)
	if err != nil {
		return err
	}
	r.State, r.Reason, r.PayrollID = Created, "", p.ID
	if err := n.save(ctx, tx, r); err != nil {
		return err
	}
	action := mail.ScheduleFund
	if !p.FromOutside() {
		action = mail.ScheduleReview
	}
	return n.notify(ctx, tx, r, mail.ScheduleRunData{Action: action, Total: p.Total.String() + " " + string(p.Currency),
		Path: "/payrolls/" + p.ID})
}

// wait records why the payroll of the next run cannot be created, and schedules another attempt.
func (s *Service) wait(ctx context.Context, tx *db.Tx, k key, why *apierr.Fault) error {
	n, due, err := lockDue(ctx, tx, k)
	if err != nil || !due {
		return err
	}
	r, err := n.run(ctx, tx, n.Next)
	if err != nil {
		return err
	}
	n.nextAt = tx.Now().Add(retryEvery)
	if err := n.touch(ctx, tx); err != nil || r.State == Waiting && r.Reason == why.Code {
		return err
	}
	r.State, r.Reason = Waiting, why.Code
	if err := n.save(ctx, tx, &r); err != nil {
		return err
	}
	action := mail.ScheduleBlocked
	if why.Code == payroll.ErrNoFunds.Code {
		action = mail.ScheduleLowBalance
	}
	return n.notify(ctx, tx, &r, mail.ScheduleRunData{Action: action, Detail: why.Detail, Path: "/schedules/" + n.ID})
}

// notify mails the owners and administrators about a run, once for each kind of notice.
func (n *Schedule) notify(ctx context.Context, tx *db.Tx, r *Run, data mail.ScheduleRunData) error {
	company, err := identity.CompanyByID(ctx, tx, n.CompanyID)
	if err != nil {
		return err
	}
	to, err := auth.Administrators(ctx, tx, company)
	if err != nil {
		return err
	}
	data.Company, data.Schedule, data.PayDate = company.Name, n.Name, Text(r.PayDate)
	for address, name := range to {
		data.Name = name
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: n.CompanyID, To: address, Template: mail.ScheduleRun, Language: mail.LanguageOf(company.Country),
			Key: r.ID + "/" + data.Action + "/" + r.Reason + "/" + identity.EmailKey(address), Data: data,
		}); err != nil {
			return err
		}
	}
	return nil
}
