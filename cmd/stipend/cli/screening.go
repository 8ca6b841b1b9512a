package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/screening"
)

// manyHits is the maximum number of hits that a command prints.
const manyHits = 1000

// ScreeningCmd groups the commands for screening against sanctions lists.
type ScreeningCmd struct {
	Status  ScreeningStatusCmd  `cmd:"" help:"Show the lists in use, their age, and the number of open hits."`
	Hits    ScreeningHitsCmd    `cmd:"" help:"List matches of payees and companies with the lists."`
	Clear   ScreeningClearCmd   `cmd:"" help:"Decide that a hit is a different person, and release what waits for it."`
	Confirm ScreeningConfirmCmd `cmd:"" help:"Decide that a hit is correct: nothing is paid."`
	Try     ScreeningTryCmd     `cmd:"" help:"Search the lists for a name or an address, without a database."`
}

// ScreeningStatusCmd shows the state of screening.
type ScreeningStatusCmd struct{ app.Storage }

// Run prints the lists and the number of open hits.
func (c ScreeningStatusCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		lists, err := screening.InUse(ctx, tx)
		if err != nil {
			return err
		}
		open, err := screening.Hits(ctx, tx, screening.Open, manyHits)
		if err != nil {
			return err
		}
		if len(lists) == 0 {
			fmt.Fprintln(std.Out, "No sanctions list is in use: no worker has been started on this database.")
		}
		for _, l := range lists {
			age := ""
			if !l.Fetched.IsZero() {
				age = fmt.Sprintf(", written %s ago", tx.Now().Sub(l.Fetched).Round(time.Minute))
			}
			fmt.Fprintf(std.Out, "%s, published %s%s: %d entries, %d addresses\n",
				l.Name, l.Published.Format(time.DateOnly), age, l.Entries, l.Addresses)
		}
		fmt.Fprintf(std.Out, "%d hits wait for a decision.\n", len(open))
		return nil
	})
}

// ScreeningHitsCmd lists hits.
type ScreeningHitsCmd struct {
	app.Storage
	All bool `help:"Include decided hits."`
}

// Run prints the hits, each with the payee's current name.
func (c ScreeningHitsCmd) Run(ctx context.Context, std Streams) error {
	state := screening.Open
	if c.All {
		state = ""
	}
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
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
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", h.ID, h.State, h.Score, h.SubjectID, name,
				h.EntryID, h.EntryName, h.Programs, decision)
		}
		return t.Flush()
	})
}

// HitDecision contains the arguments of a decision about a hit.
type HitDecision struct {
	app.Storage
	Hit    string `arg:"" help:"Id of the hit (hit_…)."`
	Reason string `required:"" help:"Reason, for the audit log."`
	By     string `required:"" placeholder:"NAME" help:"Name of the person who decides."`
}

// decide stores the decision and prints its effect.
func (c HitDecision) decide(ctx context.Context, std Streams, to screening.State) error {
	if err := required("--reason", c.Reason); err != nil {
		return err
	}
	if err := required("--by", c.By); err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		h, blocked, err := backoffice.DecideHit(ctx, tx, c.Hit, to, c.By, c.Reason)
		done := "Cleared. Payments of %s are released."
		switch {
		case to == screening.Confirmed:
			done = "Confirmed. %s is not paid."
		case blocked:
			done = "Cleared. %s still waits: other hits are open or confirmed."
		}
		return fmt.Sprintf(done, h.SubjectID), err
	})
}

// ScreeningClearCmd clears a hit.
type ScreeningClearCmd struct{ HitDecision }

// Run clears the hit.
func (c ScreeningClearCmd) Run(ctx context.Context, std Streams) error {
	return c.decide(ctx, std, screening.Cleared)
}

// ScreeningConfirmCmd confirms a hit.
type ScreeningConfirmCmd struct{ HitDecision }

// Run confirms the hit.
func (c ScreeningConfirmCmd) Run(ctx context.Context, std Streams) error {
	return c.decide(ctx, std, screening.Confirmed)
}

// ScreeningTryCmd searches the lists.
type ScreeningTryCmd struct {
	Text []string `arg:"" help:"A name or an address."`
	app.Screening
}

// Run prints the matching entries.
func (c ScreeningTryCmd) Run(std Streams) error {
	lists, err := screening.New(screening.Options{Paths: c.SanctionsList, Threshold: c.SanctionsThreshold})
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
	fmt.Fprintf(std.Out, "%d entries match.\n", len(found))
	return nil
}
