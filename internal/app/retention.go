package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/notification"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/webhook"
)

// Retention contains the operator's retention periods in days, by the name of the class of data.
type Retention struct {
	Keep map[string]int `name:"keep" mapsep:","`
}

// DataClass is a class of data that a worker process deletes after a period.
type DataClass struct {
	Name        string
	Contains    string
	Days        int
	Least, Most int // bounds of the period in days; equal if the API promises a fixed period
	// Expired counts the rows that the next run would delete. It is nil for a class with a fixed period that the API
	// promises.
	Expired func(ctx context.Context, tx *db.Tx, kept time.Duration) (int64, error)

	// prune deletes expired rows. It returns the number of deleted rows, and of expired rows that must still be
	// retained.
	prune func(ctx context.Context, d *db.DB, kept time.Duration) (deleted, retained int64, err error)
}

const (
	mostDays = 3650 // longest period of a log: ten years
	// lawfulDays is the shortest period for data of people and companies after the end of the relationship: five years,
	// as most laws against money laundering require.
	lawfulDays = 1827
)

// dataClasses are the classes of data with their default periods. Data in no class is stored permanently: the ledger,
// payments and the audit log.
var dataClasses = []DataClass{
	{"events", "events and their deliveries to webhooks", int(webhook.Kept / day),
		int(webhook.Kept / day), int(webhook.Kept / day), nil, nil},
	{"ended_relations", "documents and personal data of people and companies, after the end of the relationship and the " +
		"last payment", lawfulDays, lawfulDays, 2 * mostDays, countEnded, eraseEnded},
	{"idempotency_keys", "idempotency keys with their responses", int(httpapi.KeyLife / day),
		int(httpapi.KeyLife / day), int(httpapi.KeyLife / day), nil, nil},
	{"mails", "mails that were sent or refused", 90, 7, mostDays, mail.CountExpired, rows(mail.Prune)},
	{"notifications", "notifications of members", 90, 7, mostDays, notification.CountExpired, rows(notification.Prune)},
	{"requests", "the request log of the API", int(requestlog.Life / day),
		int(requestlog.Life / day), int(requestlog.Life / day), nil, nil},
	{"security_events", "the log of forms that people sent, with addresses and browsers", 400, 400, mostDays,
		securitylog.CountExpired, rows(securitylog.Prune)},
}

const day = 24 * time.Hour

// rows returns the prune function of a class that never retains expired rows.
func rows(prune func(context.Context, *db.DB, time.Duration) (int64, error)) func(context.Context, *db.DB,
	time.Duration) (int64, int64, error) {
	return func(ctx context.Context, d *db.DB, kept time.Duration) (deleted, _ int64, err error) {
		deleted, err = prune(ctx, d, kept)
		return deleted, 0, err
	}
}

// Kept returns the retention period of the class.
func (c DataClass) Kept() time.Duration { return time.Duration(c.Days) * day }

// Classes returns all classes of data with the operator's periods. It returns an error that names the first invalid
// period.
func (r Retention) Classes() ([]DataClass, error) {
	all := slices.Clone(dataClasses)
	for _, name := range slices.Sorted(maps.Keys(r.Keep)) {
		i := slices.IndexFunc(all, func(c DataClass) bool { return c.Name == name })
		if i < 0 || all[i].prune == nil {
			var names []string
			for _, c := range all {
				if c.prune != nil {
					names = append(names, c.Name)
				}
			}
			return nil, fmt.Errorf("--keep %s: want one of %s", name, strings.Join(names, ", "))
		}
		if n := r.Keep[name]; n < all[i].Least || n > all[i].Most {
			return nil, fmt.Errorf("--keep %s=%d: want from %d to %d days", name, n, all[i].Least, all[i].Most)
		}
		all[i].Days = r.Keep[name]
	}
	return all, nil
}

// pruneExpired deletes data whose period has ended, and stores the results. An error in one class does not stop the
// deletion of others.
func (r Retention) pruneExpired(ctx context.Context, d *db.DB) error {
	classes, err := r.Classes()
	if err != nil {
		return err
	}
	var run backoffice.RetentionRun
	var failed []error
	for _, c := range classes {
		if c.prune == nil {
			continue
		}
		deleted, retained, err := c.prune(ctx, d, c.Kept())
		if err != nil {
			failed = append(failed, fmt.Errorf("delete expired %s: %w", c.Name, err))
		}
		run.Classes = append(run.Classes, backoffice.RetentionResult{Class: c.Name, Days: c.Days, Deleted: deleted,
			Retained: retained, Failed: err != nil})
	}
	return errors.Join(append(failed, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		run.At = tx.Now()
		return backoffice.StoreRetention(ctx, tx, run)
	}))...)
}
