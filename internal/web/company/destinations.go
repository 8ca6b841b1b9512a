package company

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/web/ui"
)

// stateOf reads what the history kept of a destination, zero where it kept nothing.
func stateOf(text json.RawMessage) (d destination.Distribution) {
	var s destination.State
	if len(text) == 0 || json.Unmarshal(text, &s) != nil {
		return d
	}
	var data struct {
		Address string `json:"address"`
	}
	if s.Kind == destination.Crypto {
		_ = json.Unmarshal(s.Data, &data) // one without an address has no hint
	}
	return destination.Distribution{Kind: s.Kind, Symbol: s.Symbol, Network: s.Network, Data: s.Data, Address: data.Address, Allocation: s.Allocation}
}

// setup is what destinations depend on in this installation.
func setup(c *ui.Request) destination.Setup {
	return destination.Setup{Sealer: c.Sealer, BitcoinNetwork: c.Payroll.Network, Chain: c.Payroll.ChainName, Accounts: c.Payroll.Accounts}
}

type destinationPage struct {
	Path string // below which destinations are made
	Back string // the page that shows them, Path where it is ""
	Name string // of that page
	// Replace is where a destination in place of Was is asked for and confirmed, "" for a further one.
	Replace, Was string

	Choose []ui.Field // what is to be chosen first
	Symbol string
	Rail   string
	Fields []ui.Field
	Asks   bool // the fields are there
}

const (
	dataPrefix = "d." // of the inputs that are members of distribution_data
	railKey    = "rail"
)

// chosen is a value of the form, or of the address before there is one.
func chosen(c *ui.Request, name string) string {
	if c.Form != nil {
		return c.Form.Get(name)
	}
	return c.Query(name)
}

// showNewDestination asks where a payee is paid: first the currency, then what a destination in it consists of.
func showNewDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	owner, err := payee.Owner(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := destinationPage{Path: recipientPath(owner.ID), Name: owner.Name, Symbol: chosen(c, "symbol"), Rail: chosen(c, dataPrefix+railKey)}
	return askDestination(c, p, c.Text("destination.new", owner.Name), owner.Country, func(symbol string) (destination.Requirement, error) {
		return destination.Required(ctx, tx, setup(c), c.Session.Principal(), owner.ID, symbol)
	})
}

// askDestination asks for the currency, and then for what a destination in it consists of, in a country.
func askDestination(c *ui.Request, p destinationPage, title, country string, required func(symbol string) (destination.Requirement, error)) (ui.View, error) {
	var symbols []ui.Option
	for _, a := range money.All() {
		if a.IsCrypto() && setup(c).Payable(a, "") || !a.IsCrypto() && slices.Contains(destination.Countries(a), country) {
			symbols = append(symbols, ui.Option{Value: string(a), Label: string(a), Selected: string(a) == p.Symbol})
		}
	}
	if p.Symbol == "" {
		p.Choose = []ui.Field{{Name: "symbol", Label: c.Text("destination.currency"), Type: "select", Options: symbols}}
		return ui.View{Template: "destination", Title: title, Data: p}, nil
	}
	need, err := required(p.Symbol)
	if err != nil {
		return ui.View{}, err
	}
	p.Asks = true
	c.Labels = map[string]string{}
	for _, f := range need.Fields {
		if f.Key == railKey && p.Rail == "" {
			p.Asks, f.Required = false, true
			p.Choose = []ui.Field{destinationField(c, f, dataPrefix+railKey, "")}
			return ui.View{Template: "destination", Title: title, Data: p}, nil
		}
		if f.Key == railKey || f.DependsOn != nil && f.DependsOn.Field == railKey && f.DependsOn.Value != p.Rail {
			continue
		}
		only := ""
		if f.DependsOn != nil && f.DependsOn.Field != railKey {
			only = f.DependsOn.Value
		}
		if f.Type == "group" {
			for _, sub := range f.Fields {
				p.Fields = append(p.Fields, destinationField(c, sub, dataPrefix+f.Key+"."+sub.Key, only))
			}
			continue
		}
		p.Fields = append(p.Fields, destinationField(c, f, dataPrefix+f.Key, only))
	}
	return ui.View{Template: "destination", Title: title, Data: p}, nil
}

// destinationField is an input for a member of distribution_data, with its example. only is the choice with which it is asked for.
func destinationField(c *ui.Request, f destination.Field, name, only string) ui.Field {
	in := ui.Field{Name: name, Label: f.Label, Required: f.Required && only == "", Most: f.MaxLength, Autocomplete: "off"}
	if key := "bank." + f.Key; c.HasText(key) {
		in.Label = c.Text(key)
	}
	c.Labels = merged(c.Labels, name, in.Label)
	switch f.Type {
	case "select":
		in.Type = "select"
		if !f.Required || only != "" {
			in.Options = []ui.Option{{Value: "", Label: c.Text("form.choose")}}
		}
		for _, o := range f.Options {
			in.Options = append(in.Options, ui.Option{Value: o.Value, Label: cmp.Or(o.Label, o.Value)})
		}
	case "email":
		in.Type = "email"
	case "date":
		in.Type = "date"
	}
	in = c.Field(in)
	var hints []string
	if f.Example != "" && f.Type != "select" {
		hints = append(hints, c.Text("destination.example", f.Example))
	}
	if only != "" {
		hints = append(hints, c.Text("destination.only", only))
	} else if !f.Required {
		hints = append(hints, c.Text("destination.optional"))
	}
	in.Hint = strings.Join(hints, " ")
	return in
}

func merged(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// destinationData is the distribution_data of a posted form.
func destinationData(c *ui.Request) ([]byte, error) {
	data := map[string]any{}
	for name := range c.Form {
		key, isData := strings.CutPrefix(name, dataPrefix)
		value := strings.TrimSpace(c.Form.Get(name))
		if !isData || value == "" {
			continue
		}
		group, sub, inGroup := strings.Cut(key, ".")
		if !inGroup {
			data[key] = value
			continue
		}
		members, _ := data[group].(map[string]any)
		if members == nil {
			members = map[string]any{}
			data[group] = members
		}
		members[sub] = value
	}
	return json.Marshal(data)
}

// createDestination adds a destination to a payee.
func createDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	text, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	_, err = destination.Create(ctx, tx, setup(c), c.Session.Principal(), destination.CreateParams{OwnerID: id, Symbol: c.Form.Get("symbol"), Data: text})
	return ui.View{Redirect: recipientPath(id)}, atDestination(err)
}

// atDestination has what is wrong with a destination stand at the inputs of its form.
func atDestination(err error) error {
	f, ok := apierr.As(err)
	if !ok || f.Kind == apierr.NotFound || f.Kind == apierr.Unavailable || f.Kind == apierr.Forbidden {
		return err
	}
	if len(f.Fields) == 0 {
		return f.At("body", "")
	}
	return ui.RenameFields(f, func(pointer string) string {
		if member, ofData := strings.CutPrefix(pointer, "/distribution_data/"); ofData {
			return "/" + dataPrefix + strings.ReplaceAll(member, "/", ".")
		}
		return pointer
	})
}

// replacePath is where a destination of a payee is replaced.
func replacePath(id, distributionID string) string {
	return recipientPath(id) + "/destinations/" + distributionID + "/replace"
}

// showReplace asks for what stands in a destination's place, in its currency.
func showReplace(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	owner, err := payee.Owner(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	old, err := destination.Get(ctx, tx, c.Session.Principal(), owner.ID, c.HTTP.PathValue("distribution"))
	if err != nil {
		return ui.View{}, err
	}
	p := destinationPage{
		Path: recipientPath(owner.ID), Replace: replacePath(owner.ID, old.ID), Was: destinationName(old), Name: owner.Name, Symbol: string(old.Symbol), Rail: chosen(c, dataPrefix+railKey),
	}
	return askDestination(c, p, c.Text("destination.replace", owner.Name), owner.Country, func(symbol string) (destination.Requirement, error) {
		return destination.Required(ctx, tx, setup(c), c.Session.Principal(), owner.ID, symbol)
	})
}

type replacePage struct {
	Path, Back, Name string
	Before, After    string // masked
	Part             string
	Draft            string // what was typed, sealed
}

// checkReplace shows what is about to be replaced by what, masked, before anything is changed. What was typed comes back sealed, for
// this reader and destination alone.
func checkReplace(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	owner, err := payee.Owner(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	data, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	before, after, err := destination.Preview(ctx, tx, setup(c), c.Session.Principal(), destination.UpdateParams{OwnerID: owner.ID, ID: c.HTTP.PathValue("distribution"), Data: data})
	if err != nil {
		return ui.View{}, atDestination(err)
	}
	draft, err := c.Sealer.Seal(draftPlace(c), data)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "replace", Title: c.Text("destination.replace", owner.Name), Data: replacePage{
		Path: replacePath(owner.ID, before.ID), Back: recipientPath(owner.ID), Name: owner.Name, Before: destinationName(before), After: destinationName(after),
		Part: strconv.Itoa(before.Allocation) + "\u00a0%", Draft: draft,
	}}, nil
}

// draftPlace is where a sealed destination belongs that nobody has confirmed yet.
func draftPlace(c *ui.Request) identity.Place {
	return identity.Place{Table: "distributions", Column: "draft", Row: c.Session.ID + "/" + c.HTTP.PathValue("id") + "/" + c.HTTP.PathValue("distribution")}
}

// replaceDestination puts what was confirmed in a destination's place.
func replaceDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	data, err := c.Sealer.Open(draftPlace(c), c.Form.Get("draft"))
	if err != nil {
		return ui.View{}, ui.ErrForm
	}
	_, err = destination.Update(ctx, tx, setup(c), c.Session.Principal(), destination.UpdateParams{OwnerID: id, ID: c.HTTP.PathValue("distribution"), Data: data})
	return ui.View{Redirect: recipientPath(id)}, atDestination(err)
}

// correctionShown is what a bank asks to be put right in a destination.
type correctionShown struct {
	Path, ID, What, Before string
	Rows                   []fact // as the bank wants it
	Since                  string
}

// corrections are what banks ask of some destinations, as far as they ask.
func corrections(c *ui.Request, owner string, all []destination.Distribution) (some []correctionShown) {
	for _, d := range all {
		if d.Correction == nil {
			continue
		}
		var data map[string]any
		if json.Unmarshal(d.Correction.Data, &data) != nil {
			continue
		}
		w := correctionShown{Path: recipientPath(owner) + "/destinations/" + d.ID + "/correct", ID: d.Correction.ID, Before: destinationName(d),
			What: d.Correction.Code, Since: c.FormatTime(d.Correction.Asked)}
		for _, name := range d.Correction.Members {
			value, _ := data[name].(string)
			w.Rows = append(w.Rows, fact{c.Word("bank", name), value})
		}
		some = append(some, w)
	}
	return some
}

// correctDestination puts a destination right as its bank asks.
func correctDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := destination.Correct(ctx, tx, c.Session.Principal(), id, c.HTTP.PathValue("distribution"), c.Form.Get("correction_id"))
	if errors.Is(err, destination.ErrCorrection) {
		err = destination.ErrCorrection.At("body", "")
	}
	return ui.View{Redirect: recipientPath(id)}, err
}

// setAllocations shares a payee's payments out over their destinations.
func setAllocations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	var shares []destination.Share
	for name := range c.Form {
		if d, ok := strings.CutPrefix(name, "a."); ok {
			shares = append(shares, destination.Share{DistributionID: d, Allocation: json.Number(cmp.Or(strings.TrimSpace(c.Form.Get(name)), "0"))})
		}
	}
	slices.SortFunc(shares, func(a, b destination.Share) int { return strings.Compare(a.DistributionID, b.DistributionID) })
	_, err := destination.SetAllocations(ctx, tx, c.Session.Principal(), id, shares)
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound {
		return ui.View{}, (&apierr.Fault{Kind: f.Kind, Code: f.Code, Detail: f.Detail}).At("body", "")
	}
	return ui.View{Redirect: recipientPath(id)}, err
}

// deleteDestination removes a destination that takes no part of any payment.
func deleteDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	return ui.View{Redirect: recipientPath(id)}, destination.Delete(ctx, tx, c.Session.Principal(), id, c.Form.Get("distribution_id"))
}
