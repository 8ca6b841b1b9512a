package apierr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
)

func TestACopyStillIsTheDeclaredFault(t *testing.T) {
	declared := apierr.New(apierr.Conflict, "allocation_not_zero", "Set the allocation to 0 first.")
	wrapped := fmt.Errorf("delete: %w", declared.Detailf("It is %d.", 40).Set("allocation", "40"))
	if !errors.Is(wrapped, declared) {
		t.Error("a detailed copy is not recognised")
	}
	if declared.Meta != nil || declared.Detail != "Set the allocation to 0 first." {
		t.Error("the declaration was changed by its copy")
	}
	if errors.Is(wrapped, apierr.New(apierr.Invalid, "allocation_not_zero", "")) {
		t.Error("kind is ignored")
	}
}

func TestListKeepsOrderAndEndsAtItsLimit(t *testing.T) {
	var l apierr.List
	if l.Err() != nil {
		t.Fatal("an empty list is an error")
	}
	for i := range 150 {
		l.Add("missing_field", fmt.Sprintf("/to_pay/%d", i), "needed")
	}
	f, ok := apierr.As(l.Err())
	if !ok || f.Kind != apierr.Invalid || len(f.Fields) != apierr.MaxFields || f.Fields[99].Pointer != "/to_pay/99" {
		t.Errorf("got %+v", f)
	}
}

func TestWhatPasses(t *testing.T) {
	for kind, want := range map[apierr.Kind]bool{apierr.Internal: true, apierr.BadRequest: false, apierr.NotFound: false,
		apierr.Conflict: true,
		apierr.Invalid:  false, apierr.RateLimited: true, apierr.Unavailable: true} {
		if got := apierr.Passing(fmt.Errorf("here: %w", apierr.New(kind, "x", "X."))); got != want {
			t.Errorf("%d: %v", kind, got)
		}
	}
	if !apierr.Passing(errors.New("a broken disk")) {
		t.Error("what is no fault is for good")
	}
}
