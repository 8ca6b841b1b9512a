package ui

import (
	"github.com/stipend/stipend/internal/apierr"
)

// GroupsOfFour cuts an address into pieces of four, which the eye can compare.
func GroupsOfFour(address string) (all []string) {
	for len(address) > 4 {
		all, address = append(all, address[:4]), address[4:]
	}
	return append(all, address)
}

// FormError makes a refusal a problem of the form, which is then shown again. What is not there, or not now, has a page of its own.
func FormError(err error) error {
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && f.Kind != apierr.Unavailable && len(f.Fields) == 0 {
		return f.At("body", "")
	}
	return err
}
