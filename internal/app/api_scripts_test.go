package app_test

import (
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit/apiscript"
)

// TestAPIScripts runs the scripts in testdata/api, which describe the API one request at a time. The seeded company
// sends each request unless the step names another caller.
func TestAPIScripts(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := start(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0 })
		d := newAPIClient(t, s)
		apiscript.Run(t, apiscript.Service{
			BaseURL: s.Ready().BaseURL,
			Variables: map[string]string{
				"company": d.seed.CompanyID, "api_key": d.seed.APIKey, "payer": d.seed.PayerID,
				"worker1": d.seed.Workers[0].UserID, "worker2": d.seed.Workers[1].UserID,
				"recipient": d.seed.Recipients[0].RecipientID,
			},
			Authorization: d.authorization,
			Stored:        func() any { return d.effects() },
		}, "testdata/api/*.txt")
		d.checkLedgerBalances()
	})
}

// authorization returns the Authorization header of a caller. An empty name is the seeded API key. Other names are a
// caller without credentials, another company, a user's token with scopes, or the header itself.
func (d *apiClient) authorization(t *testing.T, name string) string {
	word, rest, _ := strings.Cut(name, " ")
	switch word {
	case "":
		return "Basic " + d.seed.APIKey
	case "nobody":
		return ""
	case "stranger":
		_, other := d.stranger()
		return other.auth
	case "token":
		return d.token(strings.Fields(rest)...)
	}
	return name
}
