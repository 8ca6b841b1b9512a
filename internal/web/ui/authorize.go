package ui

import (
	"time"

	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
)

// FormatDay shows an instant, in one form for every language.
func FormatDay(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// ScopeGroup are scopes of one gravity, in words.
type ScopeGroup struct {
	Name, Title string
	Scopes      []string
}

// ScopeGroups are scopes in plain words, from harmless to grave.
func (c *Request) ScopeGroups(scopes identity.Scopes) []ScopeGroup {
	var all []ScopeGroup
	for _, g := range []oauth.Group{oauth.See, oauth.Change, oauth.MoveMoney} {
		group := ScopeGroup{Name: string(g), Title: c.Text("scopes." + string(g))}
		for _, s := range scopes.List() {
			if oauth.GroupOf(s) == g {
				group.Scopes = append(group.Scopes, c.Text("scope."+s))
			}
		}
		if len(group.Scopes) > 0 {
			all = append(all, group)
		}
	}
	return all
}
