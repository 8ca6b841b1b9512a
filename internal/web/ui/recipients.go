package ui

import (
	"slices"

	"github.com/stipend/stipend/internal/apierr"
)

// RenameFields is a fault whose problems stand at a form's own fields.
func RenameFields(f *apierr.Fault, to func(pointer string) string) error {
	kept := *f
	kept.Fields = slices.Clone(f.Fields)
	for i := range kept.Fields {
		kept.Fields[i].Pointer = to(kept.Fields[i].Pointer)
	}
	return &kept
}
