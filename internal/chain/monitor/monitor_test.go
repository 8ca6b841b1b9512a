package monitor_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/monitor"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

const name = "regtest"

// A chain that was never seen, or not for longer than the limit, is refused.
func TestCheckRefusesAnUnwatchedChain(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		const limit = 10 * time.Minute
		m, err := monitor.New(monitor.Config{DB: d, Log: slog.New(slog.DiscardHandler), Holder: "a", Lease: time.Hour,
			Limit: limit, Fail: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		var until time.Time
		check := func() error {
			t.Helper()
			err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error { return m.Check(ctx, tx, name, until) })
			if f, refused := apierr.As(err); err != nil && (!refused || f.Kind != apierr.Unavailable) {
				t.Fatal(err)
			}
			return err
		}
		if check() == nil {
			t.Error("a chain that was never seen is accepted")
		}

		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			m.Follow(ctx, name, chain.NewWatcher(d, name, bitcoinsim.New(d), 1, slog.New(slog.DiscardHandler)),
				time.Millisecond)
		}()
		for check() != nil {
			runtime.Gosched()
		}
		stop()
		<-stopped

		clock.Advance(limit)
		if err := check(); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		if until = clock.Now().Add(-limit / 2); check() == nil {
			t.Error("a chain that was not seen until then is accepted")
		}
		until = time.Time{}
		clock.Advance(time.Second)
		if check() == nil {
			t.Error("a chain that was not seen for longer than the limit is accepted")
		}
	})
}

func TestNewRefusesMissingDependencies(t *testing.T) {
	log, fail := slog.New(slog.DiscardHandler), func(error) {}
	for missing, c := range map[string]monitor.Config{
		"database": {Log: log, Holder: "a", Lease: time.Hour, Fail: fail},
		"log":      {DB: &db.DB{}, Holder: "a", Lease: time.Hour, Fail: fail},
		"holder":   {DB: &db.DB{}, Log: log, Lease: time.Hour, Fail: fail},
		"lease":    {DB: &db.DB{}, Log: log, Holder: "a", Fail: fail},
		"Fail":     {DB: &db.DB{}, Log: log, Holder: "a", Lease: time.Hour},
	} {
		if _, err := monitor.New(c); err == nil {
			t.Errorf("a monitor without its %s was built", missing)
		}
	}
}
