package db_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

func TestOnlyAConflictIsErrConflict(t *testing.T) {
	for _, err := range []error{
		db.ErrRetryLater, db.ErrStorage, fmt.Errorf("%w (deadlock)", db.ErrRetryLater),
		apierr.New(apierr.Unavailable, "retry_later", "The node does not answer."),
	} {
		if errors.Is(err, db.ErrConflict) {
			t.Errorf("%v is a conflict", err)
		}
	}
	conflict := fmt.Errorf("update the payment: %w", db.ErrConflict)
	if !errors.Is(conflict, db.ErrConflict) {
		t.Error("a wrapped conflict is not recognized")
	}
	f, ok := apierr.As(conflict)
	if !ok || f.Kind != apierr.Unavailable || f.Code != "retry_later" {
		t.Errorf("a client sees %+v", f)
	}
}
