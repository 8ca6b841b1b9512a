package payout_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
)

// recorder is a rail that records its calls.
type recorder struct {
	name  payout.RailName
	calls []string
}

func (r *recorder) Name() payout.RailName { return r.name }

func (r *recorder) Prepare(_ context.Context, _ *db.DB, companyID string) error {
	r.calls = append(r.calls, "prepare "+companyID)
	return nil
}

func (r *recorder) Send(_ context.Context, _ *db.DB, companyID string, ids []string) error {
	for _, id := range ids {
		r.calls = append(r.calls, "send "+companyID+" "+id)
	}
	return nil
}

func (r *recorder) Jobs() job.Table {
	return job.Table{"confirm": {Tx: func(context.Context, *db.Tx, job.Job) error {
		r.calls = append(r.calls, "confirm")
		return nil
	}}}
}

func (r *recorder) Periodic(*db.DB) []job.Periodic {
	return []job.Periodic{{Name: "fees." + string(r.name)}}
}

// Each rail has its own kinds of jobs, each with its own limit, so that a node that hangs delays only its rail. Kinds
// that rails share reach all of them.
func TestEveryRailHasItsOwnJobs(t *testing.T) {
	a, b := &recorder{name: "a"}, &recorder{name: "b"}
	rails := testkit.Must(payout.New(a, b))
	table := rails.Jobs()
	run := func(kind, payload string) {
		t.Helper()
		entry, j := table[kind], job.Job{CompanyID: "com_1", Kind: kind, Payload: []byte(payload)}
		var err error
		if entry.Tx != nil {
			err = entry.Tx(t.Context(), nil, j)
		} else if err = entry.Net(t.Context(), nil, j); entry.Limit == 0 {
			t.Errorf("%s has no limit of its own", kind)
		}
		if err != nil {
			t.Error(err)
		}
	}
	run(payout.JobPrepare("a"), "{}")
	run(payout.JobSend("b"), `{"ids":["1","2"]}`)
	run("confirm", "{}")
	if want := []string{"prepare com_1", "confirm"}; !slices.Equal(a.calls, want) {
		t.Errorf("a: %q, want %q", a.calls, want)
	}
	if want := []string{"send com_1 1", "send com_1 2", "confirm"}; !slices.Equal(b.calls, want) {
		t.Errorf("b: %q, want %q", b.calls, want)
	}
	if len(table) != 5 || len(rails.Periodic(nil)) != 2 {
		t.Errorf("%d kinds and %d periodic tasks, want 5 and 2", len(table), len(rails.Periodic(nil)))
	}
}

func TestNewRefusesMissingAndDuplicateRails(t *testing.T) {
	for name, rails := range map[string][]payout.Rail{
		"none": {}, "a missing one": {nil}, "two of one name": {&recorder{name: "a"}, &recorder{name: "a"}},
	} {
		if _, err := payout.New(rails...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
