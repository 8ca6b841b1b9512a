package httpapi

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// newUserService returns a fixture whose key has every scope.
func newUserService(t testing.TB, d *db.DB) *fixture {
	t.Helper()
	b := newService(t, d, nil)
	b.everyScope()
	return b
}

func (b *fixture) everyScope() {
	b.t.Helper()
	if err := b.db.Write(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "All", Scopes: identity.AllScopes(),
		})
		if err != nil {
			return err
		}
		_, b.key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox,
			identity.NewAPIKey{CompanyID: b.company, AppID: app.ID})
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
}

func userBody() members {
	return members{
		"email": "ada@Example.com", "phone_number": "(217) 555-0123", "phone_country": "us", "first_name": " Ada ",
		"last_name":     "Lovelace",
		"date_of_birth": "1992-02-29", "street_address": "1 Main Street", "street_address_2": "Floor 2",
		"city":  "Springfield",
		"state": "illinois", "zip": "627011234", "country": "us", "product": "worker",
	}
}
