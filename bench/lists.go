package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
)

var (
	recipients = flag.Int("recipients", 1_000_000, "recipients of the company in part lists")
	queries    = flag.Int("queries", 300, "queries of each kind in part lists")
	listsSeed  = flag.Int64("lists-seed", 1, "seed of the random queries in part lists")
)

// recipientBench is a company with very many recipients.
type recipientBench struct {
	d     *db.DB
	s     *identity.Sealer
	by    identity.Principal
	r     *rand.Rand
	names [2][]string
}

var (
	countries = strings.Fields("US DE BR SE GB FR IN PH NG AR MX ES PT PL NL IT")
	statuses  = []string{payee.Active, payee.Active, payee.Active, payee.Pending, payee.Inactive}
	roles     = []string{payee.Contractor, payee.Contractor, payee.Employee, payee.Vendor}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// inventNames returns n artificial names. Few of them have a common prefix.
func inventNames(r *rand.Rand, n int) []string {
	syllables := strings.Fields("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu an el in or un")
	words := make([]string, n)
	for i := range words {
		for range 2 + r.IntN(3) {
			words[i] += pick(r, syllables)
		}
	}
	return words
}

// lists measures the recipient lists of a company with many recipients.
func (b *bench) lists(ctx context.Context) error {
	address, err := b.databases("lists")
	if err != nil {
		return err
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	c := &recipientBench{d: d, r: rand.New(rand.NewPCG(uint64(*listsSeed), 0))}
	c.names = [2][]string{inventNames(c.r, 500), inventNames(c.r, 2000)}
	if c.s, err = identity.NewSealer(make([]byte, 32)); err != nil {
		return err
	}
	t := newTable(b.out, fmt.Sprintf("%s: a company with %d recipients", b.engine, *recipients), "", "p50", "p99", "max")
	if err := c.createCompany(ctx); err != nil {
		return err
	}
	empty, err := c.measureCreates(ctx)
	if err != nil {
		return err
	}
	b.logf("filling %d recipients", *recipients)
	began := time.Now()
	if err := c.fill(ctx); err != nil {
		return err
	}
	b.logf("filled in %s", time.Since(began).Round(time.Second))
	if err := vacuum(ctx, d, address); err != nil {
		return err
	}
	for _, kind := range c.queryKinds() {
		b.logf("%s", kind.name)
		took, err := c.measureQueries(ctx, kind.make)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		t.row(kind.name, took.p50, took.p99, took.max)
	}
	full, err := c.measureCreates(ctx)
	if err != nil {
		return err
	}
	t.row("create, first recipients", empty.p50, empty.p99, empty.max)
	t.row("create, with all recipients", full.p50, full.p99, full.max)
	after, err := c.measureFirstPageAfterCreate(ctx)
	if err != nil {
		return err
	}
	t.row("first page right after a create", after.p50, after.p99, after.max)
	return t.end()
}

func (c *recipientBench) createCompany(ctx context.Context) error {
	return c.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		company, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Bench", Country: "US"})
		c.by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_bench", CompanyID: company.ID,
			Scopes: identity.AllScopes()}
		return err
	})
}

func (c *recipientBench) person(i int) (first, last, email string) {
	first, last = pick(c.r, c.names[0]), pick(c.r, c.names[1])
	return first, last, fmt.Sprintf("%s.%s%d@%s.example.com", first, last, i, pick(c.r, c.names[0][:20]))
}

// fill inserts the rows that payee.Create would insert, many at a time. The sealed details have a realistic length.
func (c *recipientBench) fill(ctx context.Context) error {
	columns := []string{"company_id", "recipient_id", "relationship_id", "user_id", "recipient_type", "role", "status",
		"name", "name_key",
		"first_name", "last_name", "email", "email_key", "country", "external_id", "department", "vendor_type", "details",
		"onboarded",
		"version", "created_at", "updated_at"}
	details := strings.Repeat("x", 220)
	const portion = 20_000
	for from := 0; from < *recipients; from += portion {
		err := c.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			rows := make([][]any, 0, portion)
			for i := from; i < min(from+portion, *recipients); i++ {
				first, last, email := c.person(i)
				id, name := tx.NewID("rec"), first+" "+last
				rows = append(rows, []any{c.by.CompanyID, id, tx.NewID("rel"), "", pick(c.r, []string{"user", "user", "user",
					"company"}), pick(c.r, roles),
					pick(c.r, statuses), name, name, first, last, email, email, pick(c.r, countries), fmt.Sprintf("e-%d", i), "", "",
					details, false,
					int64(1), db.Micros(tx.Now()) + int64(i), db.Micros(tx.Now())})
			}
			return tx.Insert(ctx, "recipients", columns, rows)
		})
		if err != nil {
			return err
		}
	}
	return c.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM recipient_counts WHERE company_id = $1", c.by.CompanyID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO recipient_counts (company_id, country, role, recipient_type, status, has_login,
			recipients)
			SELECT company_id, country, role, recipient_type, status, user_id <> '', COUNT(*) FROM recipients
				WHERE company_id = $1
			GROUP BY company_id, country, role, recipient_type, status, user_id <> ''`, c.by.CompanyID)
		return err
	})
}

// vacuum updates the table's statistics, as a PostgreSQL server itself does some time after so many inserts.
func vacuum(ctx context.Context, d *db.DB, address string) error {
	if d.Engine() != db.Postgres {
		return nil
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "VACUUM ANALYZE recipients")
	return err
}

type queryKind struct {
	name string
	make func() payee.ListParams
}

// queryKinds returns the kinds of list queries. Almost every query of a kind is different.
func (c *recipientBench) queryKinds() []queryKind {
	r := c.r
	last := (*recipients + 19) / 20
	sorts := []string{"name", "email", "created"}
	anyPage := func(p payee.ListParams, pages int) payee.ListParams {
		p.SortBy, p.SortDir, p.Page.Number = pick(r, sorts), pick(r, []string{"asc", "desc"}), 1+r.IntN(max(1, pages))
		return p
	}
	all := []queryKind{{"first page", func() payee.ListParams { return payee.ListParams{} }}}
	for _, by := range sorts {
		for _, dir := range []string{"asc", "desc"} {
			all = append(all, queryKind{"by " + by + " " + dir + ", page " + fmt.Sprint(last*4/5), func() payee.ListParams {
				return payee.ListParams{SortBy: by, SortDir: dir, Page: db.Page{Number: last*4/5 - r.IntN(5)}}
			}})
		}
	}
	return append(all, []queryKind{
		{"any page in any order", func() payee.ListParams { return anyPage(payee.ListParams{}, last) }},
		{"role, any page and order", func() payee.ListParams {
			return anyPage(payee.ListParams{Role: pick(r, roles)}, last/5)
		}},
		{"recipient_type, any page and order", func() payee.ListParams {
			return anyPage(payee.ListParams{Type: pick(r, []string{"user", "company"})}, last/5)
		}},
		{"status, any page and order", func() payee.ListParams {
			return anyPage(payee.ListParams{Status: pick(r, statuses)}, last/6)
		}},
		{"country, any page and order", func() payee.ListParams {
			return anyPage(payee.ListParams{Country: pick(r, countries)}, last/20)
		}},
		{"all filters, any page and order", func() payee.ListParams {
			return anyPage(payee.ListParams{Role: pick(r, roles), Type: "user", Status: pick(r, statuses),
				Country: pick(r, countries)}, last/500)
		}},
		{"search one letter", func() payee.ListParams {
			return anyPage(payee.ListParams{Search: string(rune('a' + r.IntN(26)))}, last/10)
		}},
		{"search two letters", func() payee.ListParams {
			return anyPage(payee.ListParams{Search: string([]rune{rune('a' + r.IntN(26)), rune('a' + r.IntN(26))})}, 50)
		}},
		{"search a part of all (\"ample.c\")", func() payee.ListParams {
			const every = ".example.com"
			from := r.IntN(len(every) - 2)
			return anyPage(payee.ListParams{Search: every[from : from+2+r.IntN(len(every)-from-1)]}, last)
		}},
		{"search a first name", func() payee.ListParams {
			return anyPage(payee.ListParams{Search: pick(r, c.names[0])}, 50)
		}},
		{"search a part of a name", func() payee.ListParams {
			n := []rune(pick(r, c.names[1]))
			from := r.IntN(len(n) - 2)
			return anyPage(payee.ListParams{Search: string(n[from : from+3])}, 50)
		}},
		{"search a whole name", func() payee.ListParams {
			return anyPage(payee.ListParams{Search: pick(r, c.names[0]) + " " + pick(r, c.names[1])}, 1)
		}},
		{"search a part of an email", func() payee.ListParams {
			return anyPage(payee.ListParams{Search: fmt.Sprint(r.IntN(*recipients)) + "@"}, 1)
		}},
		{"search without a match", func() payee.ListParams {
			return payee.ListParams{Search: fmt.Sprintf("q%dq", r.Uint32())}
		}},
		{"search and all filters", func() payee.ListParams {
			return anyPage(payee.ListParams{Search: pick(r, c.names[0])[:3], Role: pick(r, roles), Type: "user",
				Status: pick(r, statuses), Country: pick(r, countries)}, 1)
		}},
	}...)
}

// measureQueries measures complete queries: the transaction, the total, the ids of the page, and its rows.
func (c *recipientBench) measureQueries(ctx context.Context, draw func() payee.ListParams) (spread, error) {
	took := []time.Duration{}
	for range *queries {
		p := draw()
		began := time.Now()
		err := c.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			_, err := payee.List(ctx, tx, c.by, p)
			return err
		})
		if err != nil {
			return spread{}, err
		}
		took = append(took, time.Since(began))
	}
	return spreadOf(took), nil
}

func (c *recipientBench) create(ctx context.Context, n int) (string, error) {
	first, last, _ := c.person(n)
	var made payee.Recipient
	err := c.d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		made, err = payee.Create(ctx, tx, c.s, c.by, payee.CreateParams{Profile: identity.Profile{FirstName: first,
			LastName: last, Country: "US"}})
		return err
	})
	return made.ID, err
}

func (c *recipientBench) measureCreates(ctx context.Context) (spread, error) {
	took := []time.Duration{}
	for i := range *queries {
		began := time.Now()
		if _, err := c.create(ctx, i); err != nil {
			return spread{}, err
		}
		took = append(took, time.Since(began))
	}
	return spreadOf(took), nil
}

// measureFirstPageAfterCreate measures the first page directly after the creation of a recipient, and checks that it
// contains the recipient.
func (c *recipientBench) measureFirstPageAfterCreate(ctx context.Context) (spread, error) {
	took := []time.Duration{}
	for i := range *queries {
		id, err := c.create(ctx, i)
		if err != nil {
			return spread{}, err
		}
		began := time.Now()
		err = c.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			s, err := payee.List(ctx, tx, c.by, payee.ListParams{SortBy: "created", SortDir: "desc"})
			if err == nil && (len(s.Items) == 0 || s.Items[0].ID != id) && s.Total < *recipients {
				return errors.New("the list does not contain the new recipient")
			}
			return err
		})
		if err != nil {
			return spread{}, err
		}
		took = append(took, time.Since(began))
	}
	return spreadOf(took), nil
}
