package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// dims is the number of escrow sub-accounts of a company.
const dims = 64

func sats(n int64) money.Amount { return money.New(money.BTC, n) }

// posting returns a journal with 4 lines on 4 guarded balances of one company.
func posting(company string, serial uint64) ledger.Journal {
	dim := func(n uint64) string { return fmt.Sprintf("prl_%02d", n%dims) }
	return ledger.Journal{
		CompanyID: company, SourceType: "bench", SourceID: fmt.Sprintf("bnc_%d", serial), Purpose: "move",
		Lines: []ledger.Line{
			ledger.Debit(ledger.CompanyFunds, "", sats(60)),
			ledger.Debit(ledger.Escrow, dim(serial), sats(40)),
			ledger.Credit(ledger.Escrow, dim(serial+1), sats(70)),
			ledger.Credit(ledger.OutputPayable, "out_"+dim(serial), sats(30)),
		},
	}
}

// fund returns a journal that credits a company with enough for all postings.
func fund(company string, serial uint64) ledger.Journal {
	j := ledger.Journal{CompanyID: company, SourceType: "bench", SourceID: fmt.Sprintf("fund_%d", serial), Purpose: "fund"}
	const each = 1_000_000_000
	j.Lines = append(j.Lines, ledger.Debit(ledger.HotWallet, "", sats(each*(dims+100))),
		ledger.Credit(ledger.CompanyFunds, "", sats(each*100)))
	for i := range dims {
		j.Lines = append(j.Lines, ledger.Credit(ledger.Escrow, fmt.Sprintf("prl_%02d", i), sats(each)))
	}
	return j
}

func companyName(n int) string { return fmt.Sprintf("com_bench%02d", n) }

// serials are unique, so that the journals of several runs on one database differ.
var serials atomic.Uint64

func openFunded(ctx context.Context, database string, companies int) (*db.DB, error) {
	d, err := db.Open(ctx, db.Options{URL: database})
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for i := range companies {
		serial := serials.Add(1)
		err := d.Write(ctx, func(_ context.Context, tx *db.Tx) error { return ledger.Post(tx, fund(companyName(i), serial)) })
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// ledgerPostings measures the ledger as the service uses it: one db.Write for each posting, from many goroutines.
func ledgerPostings(ctx context.Context, database string, clients, companies int,
	span time.Duration) (measurement, error) {
	d, err := openFunded(ctx, database, companies)
	if err != nil {
		return measurement{}, err
	}
	defer d.Close()
	f, err := throughput(clients, span, func(i int) error {
		serial := serials.Add(1)
		return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
			return ledger.Post(tx, posting(companyName(i%companies), serial))
		})
	})
	if err != nil {
		return measurement{}, err
	}
	return f, d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		report, err := ledger.Check(ctx, tx)
		if err == nil && len(report.Problems) > 0 {
			err = fmt.Errorf("the ledger does not balance: %s", strings.Join(report.Problems, "; "))
		}
		return err
	})
}

// fullBatch is the maximum number of postings that package db puts into one commit.
const fullBatch = 64

// bareLedger measures the highest rate that group commit could reach with underWay concurrent postings. Its writers
// prepare whole batches, without ids to generate, a queue, or callers that wait. If underWay is 0, every batch is
// full: clients that wait for their responses could not keep so many postings in progress.
func bareLedger(ctx context.Context, database string, companies, underWay int, span time.Duration) (float64, error) {
	d, err := openFunded(ctx, database, companies)
	if err != nil {
		return 0, err
	}
	if err := d.Close(); err != nil {
		return 0, err
	}
	b, err := openBare(ctx, database)
	if err != nil {
		return 0, err
	}
	defer b.close()
	writers := 4
	if strings.HasPrefix(database, "sqlite:") {
		writers = 1
	}
	if companies == 1 {
		writers = 1 // several writers would wait for each other's balances
	}
	batch := fullBatch
	if underWay > 0 {
		batch = min(batch, max(1, underWay/writers))
	}
	var done atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for time.Since(began) < span && failed.Load() == nil {
				if err := bareBatch(ctx, b, w, writers, companies, batch); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				done.Add(int64(batch))
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

// casted matches the last parameter of each group. It is a number, and PostgreSQL cannot infer its type in VALUES.
var casted = regexp.MustCompile(`(\$[0-9]+)\)`)

type account struct{ company, code, dim string }

// bareBatch posts one batch. Each writer has its own companies, so writers do not wait for each other.
func bareBatch(ctx context.Context, b bare, writer, writers, companies, size int) error {
	var journals, lines []any
	up, down := map[account]int64{}, map[account]int64{}
	now := time.Now().UnixMicro()
	for i := range size {
		serial := serials.Add(1)
		company := companyName((writer + i*writers) % companies)
		j := posting(company, serial)
		id := fmt.Sprintf("jrn_%026d", serial)
		journals = append(journals, j.CompanyID, id, j.SourceType, j.SourceID, j.Purpose, now)
		for n, l := range j.Lines {
			units := l.Amount.Units()
			a := account{company, string(l.Code), l.Dim}
			if n < 2 { // the debits
				down[a] += units
			} else {
				up[a] += units
				units = -units // credits are stored as negative amounts
			}
			lines = append(lines, j.CompanyID, id, int64(n), string(l.Code), l.Dim, "BTC", units)
		}
	}
	statements := []statement{
		{"INSERT INTO ledger_journals (company_id, journal_id, source_type, source_id, purpose, booked_at) VALUES " +
			db.Placeholders(size, 6, 1), journals},
		{"INSERT INTO ledger_lines (company_id, journal_id, line, code, dim, asset, amount) VALUES " +
			db.Placeholders(size*4, 7, 1), lines},
	}
	statements = chunked(statements, up, func(n int) string {
		return "INSERT INTO ledger_balances (company_id, code, dim, asset, balance) VALUES " + db.Placeholders(n, 5, 1) +
			" ON CONFLICT (company_id, code, dim, asset) DO UPDATE SET balance = ledger_balances.balance + excluded.balance"
	})
	statements = chunked(statements, down, func(n int) string {
		return "WITH v (company_id, code, dim, asset, take) AS (VALUES " + casted.ReplaceAllString(db.Placeholders(n, 5, 1),
			"CAST($1 AS BIGINT))") +
			") UPDATE ledger_balances SET balance = ledger_balances.balance - v.take FROM v " +
			"WHERE ledger_balances.company_id = v.company_id" +
			" AND ledger_balances.code = v.code AND ledger_balances.dim = v.dim AND ledger_balances.asset = v.asset" +
			" AND ledger_balances.balance >= v.take"
	})
	return b.batch(ctx, statements)
}

// chunked appends the statements that change balances, in a few fixed sizes so that prepared statements are reused.
func chunked(statements []statement, balances map[account]int64, text func(n int) string) []statement {
	var args []any
	for a, units := range balances {
		args = append(args, a.company, a.code, a.dim, "BTC", units)
	}
	for _, n := range db.Chunks(len(balances), 64) {
		statements = append(statements, statement{text(n), args[:n*5]})
		args = args[n*5:]
	}
	return statements
}
