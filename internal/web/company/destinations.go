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

// stateOf decodes a destination in the history, or returns the zero value.
func stateOf(text json.RawMessage) (d destination.Destination) {
	var s destination.State
	if len(text) == 0 || json.Unmarshal(text, &s) != nil {
		return d
	}
	var data struct {
		Address string `json:"address"`
	}
	if s.Kind == destination.Crypto {
		_ = json.Unmarshal(s.Data, &data) // the hint may be empty
	}
	return destination.Destination{Kind: s.Kind, Symbol: s.Symbol, Network: s.Network, Data: s.Data,
		Address: data.Address, Allocation: s.Allocation}
}

// setup returns the installation's settings for destinations.
func setup(c *ui.Request) destination.Setup {
	return destination.Setup{Sealer: c.Sealer, BitcoinNetwork: c.Payroll.Network, Chain: c.Payroll.ChainName,
		Accounts: c.Payroll.Accounts}
}

// destinationPage asks for a destination, first for its currency and then for its fields.
type destinationPage struct {
	Path string // prefix of the form actions
	Back string // page that lists the destinations; "" means Path
	Name string // label of the link to that page
	// Replace is the form action that replaces the destination Was. It is empty for an additional destination.
	Replace, Was string

	Choose []ui.Field // the first step: currency or payment system
	Symbol string
	Rail   string
	Fields []ui.Field
	Asks   bool // the second step: Fields
}

const (
	dataPrefix = "d." // prefix of inputs that are members of distribution_data
	railKey    = "rail"
)

// formOrQuery returns a value of the posted form, or of the URL on the first request.
func formOrQuery(c *ui.Request, name string) string {
	if c.Form != nil {
		return c.Form.Get(name)
	}
	return c.Query(name)
}

// showNewDestination renders the form for a payee's new destination.
func showNewDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	owner, err := payee.Owner(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := destinationPage{Path: recipientPath(owner.ID), Name: owner.Name, Symbol: formOrQuery(c, "symbol"),
		Rail: formOrQuery(c, dataPrefix+railKey)}
	return askDestination(c, p, c.Text("destination.new", owner.Name), owner.Country,
		func(symbol string) (destination.Requirement, error) {
			return destination.Required(ctx, tx, setup(c), c.Session.Principal(), owner.ID, symbol)
		})
}

// askDestination renders the step of the form that follows from the chosen currency and payment system.
func askDestination(c *ui.Request, p destinationPage, title, country string,
	required func(symbol string) (destination.Requirement, error)) (ui.View, error) {
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

// destinationField returns the input for a member of distribution_data. If only is set, the member applies only
// with that choice of another field.
func destinationField(c *ui.Request, f destination.Field, name, only string) ui.Field {
	in := ui.Field{Name: name, Label: f.Label, Required: f.Required && only == "", MaxLength: f.MaxLength,
		Autocomplete: "off"}
	if key := "bank." + f.Key; c.HasText(key) {
		in.Label = c.Text(key)
	}
	c.Labels = withLabel(c.Labels, name, in.Label)
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
	if f.Key == "country" && f.Type != "select" {
		in = c.CountryField(in)
	} else {
		in = c.Field(in)
	}
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

func withLabel(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// destinationData returns the posted fields as distribution_data.
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

// createDestination adds a destination of a payee.
func createDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	text, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	_, err = destination.Create(ctx, tx, setup(c), c.Session.Principal(),
		destination.CreateParams{OwnerID: id, Symbol: c.Form.Get("symbol"), Data: text})
	return ui.View{Redirect: recipientPath(id)}, destinationFormError(err)
}

// destinationFormError maps the errors of distribution_data to the inputs of the form.
func destinationFormError(err error) error {
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

// replacePath returns the path of the page that replaces a destination.
func replacePath(id, distributionID string) string {
	return recipientPath(id) + "/destinations/" + distributionID + "/replace"
}

// showReplace renders the form for a replacement in the same currency.
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
		Path: recipientPath(owner.ID), Replace: replacePath(owner.ID, old.ID), Was: destinationName(old), Name: owner.Name,
		Symbol: string(old.Symbol), Rail: formOrQuery(c, dataPrefix+railKey),
	}
	return askDestination(c, p, c.Text("destination.replace", owner.Name), owner.Country,
		func(symbol string) (destination.Requirement, error) {
			return destination.Required(ctx, tx, setup(c), c.Session.Principal(), owner.ID, symbol)
		})
}

type replacePage struct {
	Path, Back, Name string
	Before, After    string // masked
	Part             string
	Draft            string // the posted data, sealed
}

// checkReplace shows the old and the new destination, both masked, for confirmation. The posted data travels in the
// form, sealed for this session and destination.
func checkReplace(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	owner, err := payee.Owner(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	data, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	before, after, err := destination.Preview(ctx, tx, setup(c), c.Session.Principal(),
		destination.UpdateParams{OwnerID: owner.ID, ID: c.HTTP.PathValue("distribution"), Data: data})
	if err != nil {
		return ui.View{}, destinationFormError(err)
	}
	draft, err := c.Sealer.Seal(draftSealPlace(c), data)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "replace", Title: c.Text("destination.replace", owner.Name), Data: replacePage{
		Path: replacePath(owner.ID, before.ID), Back: recipientPath(owner.ID), Name: owner.Name,
		Before: destinationName(before), After: destinationName(after),
		Part: strconv.Itoa(before.Allocation) + "\u00a0%", Draft: draft,
	}}, nil
}

// draftSealPlace binds a sealed draft to the session and the destination.
func draftSealPlace(c *ui.Request) identity.SealContext {
	return identity.SealContext{Table: "distributions", Column: "draft",
		Row: c.Session.ID + "/" + c.HTTP.PathValue("id") + "/" + c.HTTP.PathValue("distribution")}
}

// replaceDestination replaces a destination by the confirmed draft.
func replaceDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	data, err := c.Sealer.Open(draftSealPlace(c), c.Form.Get("draft"))
	if err != nil {
		return ui.View{}, ui.ErrForm
	}
	_, err = destination.Update(ctx, tx, setup(c), c.Session.Principal(),
		destination.UpdateParams{OwnerID: id, ID: c.HTTP.PathValue("distribution"), Data: data})
	return ui.View{Redirect: recipientPath(id)}, destinationFormError(err)
}

// correctionRow is a correction of a destination that a bank requested.
type correctionRow struct {
	Path, ID, What, Before string
	Rows                   []fact // the corrected fields
	Since                  string
}

// corrections returns the corrections that banks requested for some of the destinations.
func corrections(c *ui.Request, owner string, all []destination.Destination) (some []correctionRow) {
	for _, d := range all {
		if d.Correction == nil {
			continue
		}
		var data map[string]any
		if json.Unmarshal(d.Correction.Data, &data) != nil {
			continue
		}
		w := correctionRow{Path: recipientPath(owner) + "/destinations/" + d.ID + "/correct", ID: d.Correction.ID,
			Before: destinationName(d),
			What:   d.Correction.Code, Since: c.FormatTime(d.Correction.Asked)}
		for _, name := range d.Correction.Members {
			value, _ := data[name].(string)
			w.Rows = append(w.Rows, fact{c.Word("bank", name), value})
		}
		some = append(some, w)
	}
	return some
}

// correctDestination applies a bank's correction to a destination.
func correctDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := destination.Correct(ctx, tx, c.Session.Principal(), id, c.HTTP.PathValue("distribution"),
		c.Form.Get("correction_id"))
	if errors.Is(err, destination.ErrCorrection) {
		err = destination.ErrCorrection.At("body", "")
	}
	return ui.View{Redirect: recipientPath(id)}, err
}

// setAllocations sets the percentages by which payments are split among a payee's destinations.
func setAllocations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	var shares []destination.Share
	for name := range c.Form {
		if d, ok := strings.CutPrefix(name, "a."); ok {
			shares = append(shares, destination.Share{DistributionID: d,
				Allocation: json.Number(cmp.Or(strings.TrimSpace(c.Form.Get(name)), "0"))})
		}
	}
	slices.SortFunc(shares, func(a, b destination.Share) int {
		return strings.Compare(a.DistributionID, b.DistributionID)
	})
	_, err := destination.SetAllocations(ctx, tx, c.Session.Principal(), id, shares)
	return ui.View{Redirect: recipientPath(id)}, ui.WholeFormError(err)
}

// deleteDestination removes a destination with an allocation of 0.
func deleteDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	return ui.View{Redirect: recipientPath(id)}, destination.Delete(
		ctx, tx, c.Session.Principal(), id, c.Form.Get("distribution_id"))
}
