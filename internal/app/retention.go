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

// Retention is how long classes of data are stored, in days by the name of the class.
type Retention struct {
	Keep map[string]int `name:"keep" mapsep:","`
}

// DataClass is a class of data that a worker process deletes after a period.
type DataClass struct {
	Name        string
	Contains    string
	Days        int
	Least, Most int // bounds of the operator's period in days; the same for a period that the API promises
	// Expired counts the rows that the next run deletes; nil for a class whose period the API promises.
	Expired func(ctx context.Context, tx *db.Tx, kept time.Duration) (int64, error)

	// prune deletes expired rows. It returns their number, and the number of those that must still be retained.
	prune func(ctx context.Context, d *db.DB, kept time.Duration) (deleted, retained int64, err error)
}

const (
	mostDays = 3650 // longest period of a log, ten years
	// lawfulDays is the shortest period of the data of people and companies after the end of the relationship, five
	// years; most laws against money laundering require it.
	lawfulDays = 1827
)

// dataClasses are the classes with their default periods. Data that is in none of them is stored permanently: the
// ledger, payments and the audit log.
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

// rows returns the prune function of a class whose expired rows are all deleted.
func rows(prune func(context.Context, *db.DB, time.Duration) (int64, error)) func(context.Context, *db.DB,
	time.Duration) (int64, int64, error) {
	return func(ctx context.Context, d *db.DB, kept time.Duration) (deleted, _ int64, err error) {
		deleted, err = prune(ctx, d, kept)
		return deleted, 0, err
	}
}

// Kept returns the period of the class.
func (c DataClass) Kept() time.Duration { return time.Duration(c.Days) * day }

// Classes returns all classes of data with the operator's periods, or an error that names a wrong one.
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

// pruneExpired deletes the data whose period is over, and stores what it did. An error of one class does not keep the
// others.
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
