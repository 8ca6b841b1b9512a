package ui

import (
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
)

// ScopeGroup is a list of scope descriptions of the same risk.
type ScopeGroup struct {
	Name, Title string
	Scopes      []string
}

// ScopeGroups describes scopes in the reader's language, grouped by increasing risk.
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
