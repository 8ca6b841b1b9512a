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
	SourceID, AppID string          // SourceID is the ID of the company or user
	scopes          identity.Scopes // scopes that the user granted to the app
}

// Connections lists the apps of several companies and users.
type Connections []Connection

// ConnectionsOf returns the connections of the companies and users with the given IDs. A company's connection needs
// the scope to read the company's events; it ends when the company disconnects the app or the member who connected
// the app no longer manages the company. A user's connection is one that the user made without a company; it ends
// when the user disconnects the app.
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

// Allow reports whether an app may receive an event. An app of a company receives all events of the company except
// those about its webhook endpoints. An app of a user receives the events for which the user has granted a scope.
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

// userEvents lists the events of users with the scopes that permit an app to receive them. Any scope of a list
// suffices. They are the scopes with which a token of the user can read the object.
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

// UserScopes returns the scopes that permit an app connected by a user to receive the named event of that user. Any
// of them suffices. It returns nil if there is no such event of users.
func UserScopes(name string) []identity.Scope {
	for _, e := range userEvents {
		if slices.Contains(e.names, name) {
			return e.scopes
		}
	}
	return nil
}

// And returns the company's event e, if e belongs to a company, and a copy of it for a user. It omits the copy if
// userID is not the ID of a user. The user's event is stored only if the user has connected an app.
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
