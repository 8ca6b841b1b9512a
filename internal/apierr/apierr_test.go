package apierr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
)

func TestCopiesMatchTheDeclaredFault(t *testing.T) {
	declared := apierr.New(apierr.Conflict, "allocation_not_zero", "Set the allocation to 0 first.")
	wrapped := fmt.Errorf("delete: %w", declared.Detailf("It is %d.", 40).Set("allocation", "40"))
	if !errors.Is(wrapped, declared) {
		t.Error("errors.Is does not match a copy with details")
	}
	if declared.Meta != nil || declared.Detail != "Set the allocation to 0 first." {
		t.Error("a copy changed the declared fault")
	}
	if errors.Is(wrapped, apierr.New(apierr.Invalid, "allocation_not_zero", "")) {
		t.Error("errors.Is ignores the kind")
	}
}

func TestListPreservesTheOrderAndEndsAtItsLimit(t *testing.T) {
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

func TestPassing(t *testing.T) {
	for kind, want := range map[apierr.Kind]bool{apierr.Internal: true, apierr.BadRequest: false, apierr.NotFound: false,
		apierr.Conflict: true, apierr.Invalid: false, apierr.RateLimited: true, apierr.Unavailable: true} {
		if got := apierr.Passing(fmt.Errorf("here: %w", apierr.New(kind, "x", "X."))); got != want {
			t.Errorf("%d: %v", kind, got)
		}
	}
	if !apierr.Passing(errors.New("a broken disk")) {
		t.Error("what is no fault is for good")
	}
}
