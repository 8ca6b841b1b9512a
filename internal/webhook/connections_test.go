package webhook

import (
	"context"
	"fmt"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// BenchmarkConnections measures the part of the delivery of an event that finds the apps of its company, for a company
// that connected none, while an app has no connected company or 10,000 of them.
func BenchmarkConnections(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		for _, connected := range []int{0, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, connected), func(b *testing.B) {
				d := dbtest.Open(b, db.Options{URL: url(b)})
				dbtest.Write(b, d, func(ctx context.Context, tx *db.Tx) error {
					if err := tx.Insert(ctx, "apps", []string{"company_id", "app_id", "name", "client_id", "secret_digest",
						"redirect_uri", "scopes", "status", "created_at"}, [][]any{{"com_app", "app_1", "App", "cli_1", "", "",
						"c_company_detail", "active", int64(0)}}); err != nil {
						return err
					}
					var grants, members [][]any
					for i := range connected {
						company := fmt.Sprintf("com_%05d", i)
						grants = append(grants, []any{company, "gra_" + company, "app_1", "usr_1", "c_company_detail", int64(1) << 60,
							int64(0), int64(0)})
						members = append(members, []any{company, "usr_1", "owner", int64(0), int64(0)})
					}
					if connected == 0 {
						return nil
					}
					if err := tx.Insert(ctx, "members", []string{"company_id", "user_id", "role", "role_since", "created_at"},
						members); err != nil {
						return err
					}
					return tx.Insert(ctx, "app_grants", []string{"company_id", "grant_id", "app_id", "user_id", "scopes",
						"expires_at", "revoked_at", "created_at"}, grants)
				})
				for b.Loop() {
					testkit.Check(b, d.Read(b.Context(), func(ctx context.Context, tx *db.Tx) error {
						all, err := Connections(ctx, tx, "com_unconcerned")
						if len(all) > 0 {
							b.Error("a company that connected no app has some")
						}
						return err
					}))
				}
			})
		}
	}
}
