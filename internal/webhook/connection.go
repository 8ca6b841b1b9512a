package webhook

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Connection is an app that receives the events of a company or user.
type Connection struct {
	SourceID, AppID string          // SourceID is the company or the user
	scopes          identity.Scopes // what a user allowed the app
}

// Connections are the apps of some companies and users.
type Connections []Connection

// ConnectionsOf returns the apps that companies have connected with the scope to read their events, until they
// disconnect or the member who connected the app no longer manages the company, and the apps that users have connected
// without a company, until they disconnect. A source is the ID of a company or user.
func ConnectionsOf(ctx context.Context, tx *db.Tx, sources ...string) (Connections, error) {
	var companies, users []string
	for _, id := range sources {
		if identity.IsUser(id) {
			users = append(users, id)
		} else {
			companies = append(companies, id)
		}
	}
	all, err := selectConnections(ctx, tx, companies)
	if err != nil {
		return nil, err
	}
	ofUsers, err := selectUserConnections(ctx, tx, users)
	for _, c := range ofUsers {
		same := func(o Connection) bool { return o.SourceID == c.SourceID && o.AppID == c.AppID }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].scopes |= c.scopes // the user has given several consents
		} else {
			all = append(all, c)
		}
	}
	return all, err
}

// Allow reports whether an app may receive an event. A company's app receives all but those of the company's
// endpoints. A user's app receives those that a scope allows that the user granted.
func (all Connections) Allow(appID string, e StoredEvent) bool {
	return slices.ContainsFunc(all, func(c Connection) bool {
		if c.AppID != appID || c.SourceID != e.CompanyID {
			return false
		}
		if !identity.IsUser(c.SourceID) {
			return !strings.HasPrefix(e.Name, "webhook.")
		}
		return slices.ContainsFunc(UserScopes(e.Name), c.scopes.Has)
	})
}

// userEvents are the events of users, by the scopes that allow them. Any one scope of a list suffices: those that let
// a user's token read the object.
var userEvents = []struct {
	scopes []identity.Scope
	names  []string
}{
	{[]identity.Scope{identity.UserDetail}, []string{UserKYCStatusUpdate.Name}},
	{[]identity.Scope{identity.UserBankDetails}, []string{
		IncomeReceived.Name, IncomeStatusUpdate.Name, TransferReceived.Name, TransferStatusUpdate.Name,
		UserFundingAccountStatus.Name, UserPaymentStatusUpdate.Name,
	}},
	{[]identity.Scope{identity.UserDistributionList, identity.UserDistributionDetail}, []string{
		DistributionChanged.Name, DistributionChecked.Name, DistributionCorrectionAsked.Name,
		DistributionCorrectionDisputed.Name,
	}},
	{[]identity.Scope{identity.UserInvoiceList, identity.UserInvoiceDetail}, []string{
		InvoiceCreated.Name, InvoiceStatusUpdate.Name,
	}},
	{[]identity.Scope{identity.UserPayerList, identity.UserPayerDetail}, []string{
		PayerCreated.Name, PayerStatusUpdate.Name,
	}},
}

// UserScopes returns the scopes by which an app that a user connected receives an event of the user, or nil if users
// have no such events. One of them suffices.
func UserScopes(name string) []identity.Scope {
	for _, e := range userEvents {
		if slices.Contains(e.names, name) {
			return e.scopes
		}
	}
	return nil
}

// And returns the event of the company, if it has one, and the same event of a user. It returns only the former if the
// ID is not that of a user. The event of the user is stored only if the user has connected an app.
func (e Event) And(userID string) (all []Event) {
	if e.CompanyID != "" && e.CompanyID != userID {
		all = append(all, e)
	}
	if identity.IsUser(userID) {
		e.CompanyID, e.ID = userID, ""
		all = append(all, e)
	}
	return all
}
