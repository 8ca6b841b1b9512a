package payroll_test

import (
	"testing"

	"github.com/stipend/stipend/internal/payroll"
)

func TestTheNextPeriodFollows(t *testing.T) {
	for before, want := range map[payroll.Period]payroll.Period{
		{}:                                       {},
		{Start: "2026-01-01", End: "2026-01-31"}: {Start: "2026-02-01", End: "2026-02-28"},
		{Start: "2028-01-01", End: "2028-01-31"}: {Start: "2028-02-01", End: "2028-02-29"},
		{Start: "2026-10-01", End: "2026-12-31"}: {Start: "2027-01-01", End: "2027-03-31"},
		{Start: "2026-11-16", End: "2026-11-29"}: {Start: "2026-11-30", End: "2026-12-13"},
		{Start: "2026-11-01", End: "2026-11-15"}: {Start: "2026-11-16", End: "2026-11-30"},
		{Start: "2026-11-30", End: "2026-11-30"}: {Start: "2026-12-01", End: "2026-12-01"},
	} {
		if got := before.Next(); got != want {
			t.Errorf("%v is followed by %v, want %v", before, got, want)
		}
	}
}
