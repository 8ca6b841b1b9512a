package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stipend/stipend/internal/fault"
)

func TestACopyStillIsTheDeclaredFault(t *testing.T) {
	declared := fault.New(fault.Conflict, "allocation_not_zero", "Set the allocation to 0 first.")
	wrapped := fmt.Errorf("delete: %w", declared.Detailf("It is %d.", 40).Set("allocation", "40"))
	if !errors.Is(wrapped, declared) {
		t.Error("a detailed copy is not recognised")
	}
	if declared.Meta != nil || declared.Detail != "Set the allocation to 0 first." {
		t.Error("the declaration was changed by its copy")
	}
	if errors.Is(wrapped, fault.New(fault.Invalid, "allocation_not_zero", "")) {
		t.Error("kind is ignored")
	}
}

func TestListKeepsOrderAndEndsAtItsLimit(t *testing.T) {
	var l fault.List
	if l.Err() != nil {
		t.Fatal("an empty list is an error")
	}
	for i := range 150 {
		l.Add("missing_field", fmt.Sprintf("/to_pay/%d", i), "needed")
	}
	f, ok := fault.As(l.Err())
	if !ok || f.Kind != fault.Invalid || len(f.Fields) != fault.MaxFields || f.Fields[99].Pointer != "/to_pay/99" {
		t.Errorf("got %+v", f)
	}
}

func TestWhatPasses(t *testing.T) {
	for kind, want := range map[fault.Kind]bool{fault.Internal: true, fault.BadRequest: false, fault.NotFound: false, fault.Conflict: true,
		fault.Invalid: false, fault.RateLimited: true, fault.Unavailable: true} {
		if got := fault.Passing(fmt.Errorf("here: %w", fault.New(kind, "x", "X."))); got != want {
			t.Errorf("%d: %v", kind, got)
		}
	}
	if !fault.Passing(errors.New("a broken disk")) {
		t.Error("what is no fault is for good")
	}
}
