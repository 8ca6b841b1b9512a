package ui

import (
	"github.com/stipend/stipend/internal/apierr"
)

// FormConflict has a refusal that names no field stand above its form.
func FormConflict(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && (f.Kind == apierr.Conflict || f.Kind == apierr.Invalid) {
		return f.At("body", "")
	}
	return err
}
