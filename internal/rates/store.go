package rates

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const storedColumns = "asset, rate, sources, observed_at, valid_to"

// prices loads stored prices by asset.
var prices = db.NewLoader(func(tx *db.Tx, assets []money.Asset, found func(money.Asset, Stored)) (all []db.Statement) {
	names := make([]string, len(assets))
	for i, a := range assets {
		names[i] = string(a)
	}
	for in, args := range db.BindList(tx, names, 1) {
		all = append(all, db.Statement{Query: "SELECT " + storedColumns + " FROM rates WHERE asset IN " + in, Args: args,
			Row: func(r *db.Rows) error {
				s, err := scanStored(r)
				found(s.Rate.Base(), s)
				return err
			}})
	}
	return all
})

func loadAll(ctx context.Context, tx *db.Tx) (map[money.Asset]Stored, error) {
	rows, err := tx.Query(ctx, "SELECT "+storedColumns+" FROM rates")
	all, err := db.Collect(rows, err, func(r *db.Rows) (Stored, error) { return scanStored(r) })
	byAsset := make(map[money.Asset]Stored, len(all))
	for _, s := range all {
		byAsset[s.Rate.Base()] = s
	}
	return byAsset, err
}

func loadValid(ctx context.Context, tx *db.Tx) ([]Stored, error) {
	rows, err := tx.Query(ctx, "SELECT "+storedColumns+" FROM rates WHERE valid_to > $1 ORDER BY asset",
		db.Micros(tx.Now()))
	return db.Collect(rows, err, func(r *db.Rows) (Stored, error) { return scanStored(r) })
}

func scanStored(row interface{ Scan(dest ...any) error }) (Stored, error) {
	var s Stored
	var asset, rate string
	var observed, validTo int64
	if err := row.Scan(&asset, &rate, &s.Sources, &observed, &validTo); err != nil {
		return Stored{}, err
	}
	s.ObservedAt, s.ValidTo = db.Time(observed), db.Time(validTo)
	var err error
	s.Rate, err = money.ParseRate(money.Asset(asset), money.USD, rate)
	return s, err
}

// save replaces stored prices. It does not replace a newer price, because two refreshers may finish in any order.
func save(ctx context.Context, tx *db.Tx, prices []Stored) error {
	for _, n := range db.Chunks(len(prices), 64) {
		args := make([]any, 0, n*5)
		for _, s := range prices[:n] {
			args = append(args, string(s.Rate.Base()), s.Rate.String(), s.Sources, db.Micros(s.ObservedAt), db.Micros(s.ValidTo))
		}
		_, err := tx.Exec(ctx, "INSERT INTO rates ("+storedColumns+") VALUES "+db.Placeholders(n, 5, 1)+`
			ON CONFLICT (asset) DO UPDATE SET rate = excluded.rate, sources = excluded.sources,
				observed_at = excluded.observed_at, valid_to = excluded.valid_to
			WHERE rates.observed_at <= excluded.observed_at`, args...)
		if err != nil {
			return err
		}
		prices = prices[n:]
	}
	return nil
}

// keep adds prices to the history. The first price of an hour stays.
func keep(ctx context.Context, tx *db.Tx, prices []Stored) error {
	for _, n := range db.Chunks(len(prices), 64) {
		args := make([]any, 0, n*3)
		for _, s := range prices[:n] {
			args = append(args, string(s.Rate.Base()), db.Micros(s.ObservedAt.Truncate(time.Hour)), s.Rate.String())
		}
		_, err := tx.Exec(ctx, "INSERT INTO rate_history (asset, hour, rate) VALUES "+db.Placeholders(n, 3, 1)+
			" ON CONFLICT (asset, hour) DO NOTHING", args...)
		if err != nil {
			return err
		}
		prices = prices[n:]
	}
	return nil
}

// past returns the price of an asset in dollars at a time: the last price in the history up to that time, otherwise
// the first price after it. found is false if the history has no price.
func past(ctx context.Context, tx *db.Tx, a money.Asset, at time.Time) (rate string, found bool, err error) {
	for _, rest := range []string{"hour <= $2 ORDER BY hour DESC LIMIT 1", "hour > $2 ORDER BY hour LIMIT 1"} {
		err := tx.QueryRow(ctx, "SELECT rate FROM rate_history WHERE asset = $1 AND "+rest, string(a),
			db.Micros(at)).Scan(&rate)
		if !errors.Is(err, db.ErrNoRows) {
			return rate, err == nil, err
		}
	}
	return "", false, nil
}
