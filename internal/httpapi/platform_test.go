package httpapi

import "testing"

// A company creates others once it is verified itself.
func TestAPlatformMustBeVerified(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	b.server.Platforms.AllowUnverified = false
	const path = "/api/platform/companies"
	body := `{"name":"Books Ltd","country":"DE","owner_email":"ada@books.example"}`
	b.set("UPDATE companies SET kyb_status = 'not_started'")
	b.refuses(refusal{403, "kyc_required", "", "POST", path, body, ""})
	b.set("UPDATE companies SET kyb_status = 'approved'")
	got := b.do("POST", path, body, "Idempotency-Key", "verified")
	if got.status != 200 || got.json(t)["status"] != "connected" {
		t.Errorf("%d %s", got.status, got.text)
	}
}
