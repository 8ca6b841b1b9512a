package delivery_test

import (
	"log/slog"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

func TestNewSenderRefusesMissingDependencies(t *testing.T) {
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	all := delivery.Options{DB: dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)}), Sealer: sealer, Env: identity.Sandbox,
		Log: slog.New(slog.DiscardHandler)}
	for name, drop := range map[string]func(*delivery.Options){
		"database": func(o *delivery.Options) { o.DB = nil }, "sealer": func(o *delivery.Options) { o.Sealer = nil },
		"environment": func(o *delivery.Options) { o.Env = "" }, "log": func(o *delivery.Options) { o.Log = nil },
	} {
		o := all
		drop(&o)
		if _, err := delivery.NewSender(o); err == nil {
			t.Errorf("a sender without its %s was created", name)
		}
	}
	if _, err := delivery.NewSender(all); err != nil {
		t.Error(err)
	}
}
