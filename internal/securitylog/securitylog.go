// Package securitylog stores which person submitted which form, from which network and browser, and with which
// outcome. It covers sign-ins, changes of credentials, keys, members and settings, and payments.
//
// The web pages record an event after each form that an identified person submits, even if the form was rejected, so
// new forms are recorded without further code. The effect of a form is committed before its event. If the process
// dies between the two, the event is missing, but the history of the object still names the person. API requests are
// recorded by package requestlog.
//
// Companies see the events of their own members. An event contains a network address and a browser name, which are
// personal data. They are deleted when the person is erased ([Erase]) and after the operator's retention period
// ([Prune]).
package securitylog

import (
	"context"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// knownFor is how long a network from which a person signed in counts as known.
const knownFor = 90 * 24 * time.Hour

// maxAgent is the maximum number of bytes of a browser name that are stored.
const maxAgent = 200

// Category is the subject of an event.
type Category string

// Categories of events.
const (
	SignIn      Category = "sign_in"     // signing in and out
	Credentials Category = "credentials" // passwords, second factors, email addresses
	Members     Category = "members"     // members and their roles
	Access      Category = "access"      // apps, keys, webhooks
	Money       Category = "money"       // payrolls, withdrawals, claims, invoices, and their approvals and destinations
	Staff       Category = "staff"       // actions of the operator's staff, such as freezing a company
	Settings    Category = "settings"    // everything else
)

// Categories are all categories.
var Categories = []Category{SignIn, Credentials, Members, Access, Money, Staff, Settings}

// categories assigns routes to categories by the beginning of their paths. The first match counts.
var categories = []struct {
	prefix   string
	category Category
}{
	{"/sign-", SignIn}, {"/join/", Members}, {"/password", Credentials}, {"/email/", Credentials},
	{"/account/destinations", Money}, {"/account/invoices", Money}, {"/account/apps", Access}, {"/account/verification",
		Settings},
	{"/account/sign-out", SignIn}, {"/account/", Credentials}, {"/authorize", Access},
	{"/settings/members", Members}, {"/settings/sso", Access}, {"/settings/api", Access}, {"/settings/platform", Access},
	{"/settings/webhooks", Access},
	{"/settings/approvals", Money}, {"/payrolls", Money}, {"/proposals", Money},
	{"/schedules", Money}, {"/wallets", Money}, {"/claims", Money},
	{"/invoices", Money}, {"/recipients", Money}, {"/operations", Staff},
}

// CategoryOf returns the category of a route.
func CategoryOf(route string) Category {
	for _, c := range categories {
		if strings.HasPrefix(route, c.prefix) {
			return c.category
		}
	}
	return Settings
}

// Event records a form that a person submitted.
type Event struct {
	ID       string
	At       time.Time
	Category Category
	Action   string // method and route, such as "POST /settings/members"
	Path     string // contains the IDs of the objects, but no parameters
	UserID   string // "" for staff
	StaffID  string // "" for members
	Outcome  string // error code, or "" if it succeeded
	Address  string // address of the client
	Network  string // network of the client, as rate limits count it
	Agent    string // name of the client's browser, from its User-Agent header
}

// Record stores an event for each of the companies, or once if there are none.
func Record(ctx context.Context, tx *db.Tx, e Event, companies ...string) error {
	if len(companies) == 0 {
		companies = []string{""}
	}
	if len(e.Agent) > maxAgent {
		e.Agent = strings.ToValidUTF8(e.Agent[:maxAgent], "")
	}
	e.Agent = strings.ReplaceAll(strings.ToValidUTF8(e.Agent, ""), "\x00", "")
	_, route, _ := strings.Cut(e.Action, " ")
	e.Category = CategoryOf(route)
	return insert(ctx, tx, e, companies)
}

// KnownNetwork reports whether a person signed in from a network within the last 90 days.
func KnownNetwork(ctx context.Context, tx *db.Tx, userID, network string) (bool, error) {
	return selectKnown(ctx, tx, userID, network, tx.Now().Add(-knownFor))
}
