package offering

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// prefix is the prefix of the settings that store the states of assets.
const prefix = "asset."

var switches = db.NewLoader(func(tx *db.Tx, assets []money.Asset, found func(money.Asset, State)) (
	all []db.Statement) {
	keys := make([]string, len(assets))
	for i, a := range assets {
		keys[i] = prefix + string(a)
	}
	for in, args := range db.BindList(tx, keys, 1) {
		all = append(all, db.Statement{Query: "SELECT key, value FROM settings WHERE key IN " + in, Args: args,
			Row: func(r *db.Rows) error {
				var key string
				var s State
				err := r.Scan(&key, &s)
				found(money.Asset(strings.TrimPrefix(key, prefix)), s)
				return err
			}})
	}
	return all
})

// All returns the states of the assets that were switched at least once.
func All(ctx context.Context, tx *db.Tx) (map[money.Asset]State, error) {
	states := map[money.Asset]State{}
	rows, err := tx.Query(ctx, "SELECT key, value FROM settings WHERE key LIKE $1", prefix+"%")
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var key string
		var s State
		err := r.Scan(&key, &s)
		states[money.Asset(strings.TrimPrefix(key, prefix))] = s
		return struct{}{}, err
	})
	return states, err
}
