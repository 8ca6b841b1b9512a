package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/screening"
)

// ScreeningCmd groups the commands about sanctions lists.
type ScreeningCmd struct {
	Status  ScreeningStatusCmd  `cmd:"" help:"Say which sanctions lists are in use, how old they are, and what waits for a decision."`
	Hits    ScreeningHitsCmd    `cmd:"" help:"List what payees and companies have in common with the lists."`
	Clear   ScreeningClearCmd   `cmd:"" help:"Decide that a hit is somebody else, and let what waited go on."`
	Confirm ScreeningConfirmCmd `cmd:"" help:"Decide that a hit is right. Nothing is paid."`
	Try     ScreeningTryCmd     `cmd:"" help:"Look for a name or an address on the lists, without a database."`
}

// ScreeningStatusCmd says how screening stands.
type ScreeningStatusCmd struct {
	app.Storage
}

// Run prints the lists and the number of open hits.
func (c ScreeningStatusCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			lists, err := screening.InUse(ctx, tx)
			if err != nil {
				return err
			}
			open, err := screening.Hits(ctx, tx, screening.Open, manyHits)
			if err != nil {
				return err
			}
			if len(lists) == 0 {
				fmt.Fprintln(std.Out, "No sanctions list is in use: no worker has been started here.")
			}
			for _, l := range lists {
				age := ""
				if !l.Fetched.IsZero() {
					age = fmt.Sprintf(", written %s ago", tx.Now().Sub(l.Fetched).Round(time.Minute))
				}
				fmt.Fprintf(std.Out, "%s, published %s%s: %d entries, %d addresses\n", l.Name, l.Published.Format(time.DateOnly), age, l.Entries, l.Addresses)
			}
			fmt.Fprintf(std.Out, "%d hits wait for a decision.\n", len(open))
			return nil
		})
	})
}

// manyHits bounds what is listed.
const manyHits = 1000

// ScreeningHitsCmd lists hits.
type ScreeningHitsCmd struct {
	app.Storage
	All bool `help:"Also those that are decided."`
}

// Run prints hits with the payee's present name.
func (c ScreeningHitsCmd) Run(ctx context.Context, std Streams) error {
	state := screening.Open
	if c.All {
		state = ""
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			hits, err := screening.Hits(ctx, tx, state, manyHits)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(std.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "HIT\tSTATE\tSCORE\tSUBJECT\tNAME\tENTRY\tLISTED\tPROGRAMS\tDECISION")
			for i := range hits {
				h := &hits[i]
				payees, err := payee.Payees(ctx, tx, h.CompanyID, []string{h.SubjectID})
				if err != nil {
					return err
				}
				name := payees[h.SubjectID].Name
				if h.Kind == screening.KindAddress {
					name += " " + h.Matched
				}
				decision := ""
				if h.State != screening.Open {
					decision = h.DecidedAt.Format(time.RFC3339) + " " + h.DecidedBy + ": " + h.Reason
				}
				fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", h.ID, h.State, h.Score, h.SubjectID, name, h.EntryID, h.EntryName, h.Programs, decision)
			}
			return t.Flush()
		})
	})
}

// HitDecision is what both decisions need.
type HitDecision struct {
	app.Storage
	Hit    string `arg:"" help:"Id of the hit (hit_…)."`
	Reason string `required:"" help:"Why, for whoever examines the decision."`
	By     string `required:"" placeholder:"NAME" help:"Who decides."`
}

func (c HitDecision) take(ctx context.Context, out io.Writer, to screening.State) error {
	if strings.TrimSpace(c.Reason) == "" || strings.TrimSpace(c.By) == "" {
		return errors.New("--reason and --by must say something")
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var h screening.Hit
		var blocked bool
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			h, blocked, err = backoffice.DecideHit(ctx, tx, c.Hit, to, c.By, c.Reason)
			return err
		})
		switch {
		case err != nil:
			return err
		case to == screening.Confirmed:
			fmt.Fprintf(out, "Confirmed. %s is not paid.\n", h.SubjectID)
		case blocked:
			fmt.Fprintf(out, "Cleared. %s still waits: other hits are open or confirmed.\n", h.SubjectID)
		default:
			fmt.Fprintf(out, "Cleared. What waited for %s goes on.\n", h.SubjectID)
		}
		return nil
	})
}

// ScreeningClearCmd clears a hit.
type ScreeningClearCmd struct{ HitDecision }

// Run clears.
func (c ScreeningClearCmd) Run(ctx context.Context, std Streams) error {
	return c.take(ctx, std.Out, screening.Cleared)
}

// ScreeningConfirmCmd confirms a hit.
type ScreeningConfirmCmd struct{ HitDecision }

// Run confirms.
func (c ScreeningConfirmCmd) Run(ctx context.Context, std Streams) error {
	return c.take(ctx, std.Out, screening.Confirmed)
}

// ScreeningTryCmd looks somebody up.
type ScreeningTryCmd struct {
	Text      []string `arg:"" help:"A name or an address."`
	Lists     []string `name:"sanctions-list" env:"STIPEND_SANCTIONS_LIST" placeholder:"FILE" help:"The lists' files. Default: the sandbox's list."`
	Threshold int      `name:"sanctions-threshold" default:"85" env:"STIPEND_SANCTIONS_THRESHOLD" placeholder:"PERCENT" help:"How alike names must be (${default})."`
}

// Run prints what is found.
func (c ScreeningTryCmd) Run(std Streams) error {
	lists, err := screening.New(screening.Options{Paths: c.Lists, Threshold: c.Threshold})
	if err != nil {
		return err
	}
	if _, err := lists.Load(); err != nil {
		return err
	}
	found := lists.Match(strings.Join(c.Text, " "))
	for _, m := range found {
		fmt.Fprintf(std.Out, "%d %%  %s  %s  %s\n", m.Score, m.Entry.ID, m.Entry.Name, strings.Join(m.Entry.Programs, ", "))
	}
	fmt.Fprintf(std.Out, "%d entries are like it.\n", len(found))
	return nil
}
