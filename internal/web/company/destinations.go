package company

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
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
	d = destination.Destination{Kind: s.Kind, Symbol: s.Symbol, Network: s.Network, Data: s.Data,
		Address: data.Address, Allocation: s.Allocation}
	if fixed, err := money.Parse(s.FixedCurrency, s.FixedAmount.String()); err == nil && s.FixedAmount != "" {
		d.Fixed = fixed
	}
	return d
}

// partText returns the part of a destination in payments, such as "60 %" or "200.00 USD".
func partText(c *ui.Request, d destination.Destination) string {
	if d.Fixed.Sign() > 0 {
		return c.FormatMoney(d.Fixed)
	}
	return strconv.Itoa(d.Allocation) + "\u00a0%"
}

// Setup returns the installation's settings for destinations.
func Setup(c *ui.Request) destination.Setup {
	setup := c.Payroll.Destinations()
	setup.Sealer = c.Sealer
	return setup
}

// OwnerPages are the pages that change the destinations of one owner: a recipient of a company, or the signed-in
// person.
type OwnerPages struct {
	// Owner returns who acts, and the ID of the owner.
	Owner func(c *ui.Request) (by identity.Principal, id string)
	// Path returns the prefix of the pages, and Back the path of the page that lists the destinations.
	Path, Back func(c *ui.Request) string
	Own        bool // the owner is the signed-in person
}

// recipientPages change the destinations of recipients without an account.
var recipientPages = OwnerPages{
	Owner: func(c *ui.Request) (identity.Principal, string) { return c.Session.Principal(), c.HTTP.PathValue("id") },
	Path:  func(c *ui.Request) string { return recipientPath(c.HTTP.PathValue("id")) },
	Back:  func(c *ui.Request) string { return recipientPath(c.HTTP.PathValue("id")) },
}

// Routes returns the routes of the pages. list renders the destinations, with the problems of rejected forms.
func (o OwnerPages) Routes(prefix string, access ui.Access,
	list func(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error)) []ui.Route {
	one := prefix + "/destinations/{distribution}"
	return []ui.Route{
		{Method: "GET", Path: prefix + "/destinations/new", Access: access, Factor: ui.FreshFactor, Handler: o.showNew},
		{Method: "POST", Path: prefix + "/destinations/new", Access: access, Factor: ui.FreshFactor, Handler: o.create,
			FormPage: o.showNew, Notice: "added"},
		{Method: "POST", Path: prefix + "/destinations/check", Kind: ui.ReadOnlyForm, Access: access, Handler: o.check,
			FormPage: o.showNew},
		{Method: "POST", Path: prefix + "/destinations/delete", Access: access, Factor: ui.FreshFactor, Handler: o.remove,
			FormPage: list, Notice: "removed"},
		{Method: "GET", Path: one + "/replace", Access: access, Factor: ui.FreshFactor, Handler: o.showReplace},
		{Method: "POST", Path: one + "/replace/check", Kind: ui.ReadOnlyForm, Access: access, Factor: ui.FreshFactor,
			Handler: o.checkReplace, FormPage: o.showReplace},
		{Method: "POST", Path: one + "/replace", Access: access, Factor: ui.FreshFactor, Handler: o.replace,
			FormPage: o.showReplace, Notice: "saved"},
		{Method: "GET", Path: one + "/wallet", Access: access, Handler: o.showHosting},
		{Method: "POST", Path: one + "/wallet", Access: access, Factor: ui.FreshFactor, Handler: o.declareHosting,
			FormPage: o.showHosting, Notice: "saved"},
		{Method: "POST", Path: one + "/wallet/proof", Access: access, Factor: ui.FreshFactor, Handler: o.proveHosting,
			FormPage: o.showHosting, Notice: "saved"},
		{Method: "POST", Path: one + "/correct", Access: access, Factor: ui.FreshFactor, Handler: o.correct,
			FormPage: list, Notice: "saved"},
		{Method: "POST", Path: one + "/dispute", Access: access, Factor: ui.FreshFactor, Handler: o.dispute,
			FormPage: list, Notice: "saved"},
		{Method: "POST", Path: prefix + "/allocations", Access: access, Factor: ui.FreshFactor, Handler: o.setAllocations,
			FormPage: list, Notice: "saved"},
		{Method: "POST", Path: prefix + "/allocations/preview", Kind: ui.ReadOnlyForm, Access: access,
			Handler: previewAllocations(list), FormPage: list},
	}
}

// owner returns the owner of the destinations, and who acts.
func (o OwnerPages) owner(ctx context.Context, tx *db.Tx, c *ui.Request) (identity.Principal, payee.Payee, error) {
	by, id := o.Owner(c)
	owner, err := payee.Owner(ctx, tx, by, id)
	return by, owner, err
}

// title returns the text of a key with the owner's name, or the text that addresses the owner.
func (o OwnerPages) title(c *ui.Request, key, name string) string {
	if o.Own {
		return c.Text(key + ".own")
	}
	return c.Text(key, name)
}

// page returns a form for a destination of the owner.
func (o OwnerPages) page(c *ui.Request, owner payee.Payee) destinationPage {
	name := owner.Name
	if o.Own {
		name = c.Text("destinations.title")
	}
	return destinationPage{Path: o.Path(c), Own: o.Own, Back: o.Back(c), Name: name,
		Holder: owner.Name, Country: owner.Country,
		Check: o.Path(c) + "/destinations/check", Rail: formOrQuery(c, dataPrefix+railKey),
		Adding: formOrQuery(c, "adding") != ""}
}

// destinationPage asks for a destination, first for its currency and then for its fields.
type destinationPage struct {
	Path string // prefix of the form actions
	// Holder and Country are the proposed account holder and the country of their address.
	Holder, Country string
	Check           string // path of the form action that only checks; "" for none
	Back            string // page that lists the destinations; "" means Path
	Name            string // label of the link to that page
	// Replace is the form action that replaces the destination Was. It is empty for an additional destination.
	Replace, Was string
	// Old are the values of Was that are proposed again, by the name of their field: all but what identifies the account.
	Old map[string]string

	Choose []ui.Field          // the first step: fields
	Ways   []destinationChoice // or links to the second step in each currency
	Symbol string
	Rail   string    // chosen payment system; "" if there is only one
	By     string    // its name
	Rails  []ui.Cell // links to the others
	Fields []ui.Field
	Asks   bool // the second step: Fields
	Own    bool // the reader is the person who is paid
	Adding bool // the payee was just added; the next page is for another one, or for a payroll
}

// destinationChoice leads to the form for a destination in a currency.
type destinationChoice struct{ Icon, Currency, Why, Path string }

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

// showNew renders the form for a new destination.
func (o OwnerPages) showNew(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, owner, err := o.owner(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	p := o.page(c, owner)
	p.Symbol = formOrQuery(c, "symbol")
	return askDestination(c, p, o.title(c, "destination.new", owner.Name), owner.Country,
		func(symbol string) (destination.Requirement, error) {
			return destination.Required(ctx, tx, Setup(c), by, owner.ID, symbol)
		})
}

// askDestination renders the step of the form that follows from the chosen currency.
func askDestination(c *ui.Request, p destinationPage, title, country string,
	required func(symbol string) (destination.Requirement, error)) (ui.View, error) {
	var crumbs []ui.Cell
	if p.Name != "" {
		crumbs = append(crumbs, c.LinkCell(p.Name, cmp.Or(p.Back, p.Path)))
	}
	if p.Symbol == "" {
		p.Ways = waysToBePaid(c, p.Path, country)
		return ui.View{Template: "destination", Title: title, Crumbs: crumbs, Data: p}, nil
	}
	need, err := required(p.Symbol)
	if err != nil {
		return ui.View{}, err
	}
	p.Asks = true
	c.Labels = map[string]string{}
	for _, f := range need.Fields {
		if f.Key == railKey {
			p.chooseRail(c, f.Options)
			continue
		}
		if f.DependsOn != nil && f.DependsOn.Field == railKey && f.DependsOn.Value != p.Rail {
			continue
		}
		only := ""
		if f.DependsOn != nil && f.DependsOn.Field != railKey {
			only = f.DependsOn.Value
		}
		if f.Type == "group" {
			for _, sub := range f.Fields {
				key := f.Key + "." + sub.Key
				p.Fields = append(p.Fields, destinationField(c, sub, dataPrefix+key, only, p.proposed(key)))
			}
			continue
		}
		p.Fields = append(p.Fields, destinationField(c, f, dataPrefix+f.Key, only, p.proposed(f.Key)))
		if first := firstAddress(c); f.Key == destination.DescriptorKey && first != "" && p.Replace == "" {
			c.Labels[firstInput] = c.Text("destination.first.address")
			p.Fields = append(p.Fields, c.Field(ui.Field{Name: firstInput, Label: c.Text("destination.first", first),
				Type: "select", Required: true, Hint: c.Text("destination.first.why"), Options: []ui.Option{
					{Label: c.Text("form.choose")}, {Value: first, Label: c.Text("destination.first.yes")}}}))
		}
	}
	return ui.View{Template: "destination", Title: title, Crumbs: crumbs, Data: p, Checks: p.Check != ""}, nil
}

// waysToBePaid returns the currencies in which someone in a country can be paid: those of bank accounts first.
func waysToBePaid(c *ui.Request, path, country string) (all []destinationChoice) {
	setup, banks := Setup(c), 0
	for _, a := range money.All() {
		way := destinationChoice{Icon: "landmark", Currency: string(a), Why: c.Text("destination.choose.bank"),
			Path: c.URL(path + "/destinations/new?symbol=" + string(a))}
		switch {
		case !a.IsCrypto() && slices.Contains(destination.Countries(a), country):
			all = slices.Insert(all, banks, way)
			banks++
			continue
		case !a.IsCrypto() || !setup.Payable(a, ""):
			continue
		case a == money.BTC:
			way.Icon, way.Why = "bitcoin", c.Text("destination.choose.BTC")
		default:
			way.Icon, way.Why = "coins", c.Text("destination.choose.coin")
		}
		all = append(all, way)
	}
	return all
}

// chooseRail selects the first of several payment systems, unless the caller has chosen another, and links to the rest.
func (p *destinationPage) chooseRail(c *ui.Request, all []destination.Option) {
	if !slices.ContainsFunc(all, func(o destination.Option) bool { return o.Value == p.Rail }) {
		p.Rail = all[0].Value
	}
	form := cmp.Or(p.Replace, p.Path+"/destinations/new")
	for _, o := range all {
		if o.Value == p.Rail {
			p.By = cmp.Or(o.Label, o.Value)
			continue
		}
		q := url.Values{dataPrefix + railKey: {o.Value}}
		if p.Replace == "" {
			q.Set("symbol", p.Symbol)
		}
		if p.Adding {
			q.Set("adding", "1")
		}
		p.Rails = append(p.Rails, c.LinkCell(cmp.Or(o.Label, o.Value), form+"?"+q.Encode()))
	}
}

// proposed returns the value that a field starts with, or "".
func (p destinationPage) proposed(key string) string {
	if old := p.Old[key]; old != "" {
		return old
	}
	switch key {
	case "account_holder_name":
		return p.Holder
	case "country", "address.country":
		return p.Country
	}
	return ""
}

// proposeOld proposes the values of a replaced bank account again. What is masked everywhere, such as the account
// number, is entered anew.
func (p *destinationPage) proposeOld(s *identity.Sealer, old destination.Destination) error {
	if old.Kind != destination.Fiat {
		return nil
	}
	data, err := destination.Reveal(s, old)
	if err != nil {
		return err
	}
	var masked, whole map[string]any
	if err := errors.Join(json.Unmarshal(old.Data, &masked), json.Unmarshal(data, &whole)); err != nil {
		return err
	}
	p.Old = map[string]string{}
	for key, value := range whole {
		if text, ok := value.(string); ok && masked[key] == value {
			p.Old[key] = text
		}
		group, _ := value.(map[string]any)
		for member, value := range group {
			if text, ok := value.(string); ok {
				p.Old[key+"."+member] = text
			}
		}
	}
	return nil
}

// destinationField returns the input for a member of distribution_data, with a proposed value. If only is set, the
// member applies only with that choice of another field.
func destinationField(c *ui.Request, f destination.Field, name, only, value string) ui.Field {
	in := ui.Field{Name: name, Label: f.Label, Value: value, Required: f.Required && only == "", MaxLength: f.MaxLength,
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
			label := cmp.Or(o.Label, o.Value)
			if key := "bank." + f.Key + "." + o.Value; c.HasText(key) {
				label = c.Text(key)
			}
			in.Options = append(in.Options, ui.Option{Value: o.Value, Label: label})
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
	if f.OneOf != "" {
		hints = append(hints, c.Text("destination.oneof"))
	} else if only != "" {
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

// firstInput is the input that confirms the first address of a wallet.
const firstInput = "first"

var errFirst = apierr.New(apierr.Invalid, "wallet_unconfirmed",
	"Compare the first address with the one in your wallet, then confirm it.")

// firstAddress returns the first address of the posted wallet, or "" if there is none.
func firstAddress(c *ui.Request) string {
	if c.Form == nil {
		return ""
	}
	text := strings.TrimSpace(c.Form.Get(dataPrefix + destination.DescriptorKey))
	if text == "" {
		return ""
	}
	address, err := Setup(c).FirstAddress(text)
	if err != nil {
		return "" // the check of the destination returns the problem
	}
	return address
}

// confirmed returns an error if the first address of a posted wallet was not confirmed in the form.
func confirmed(c *ui.Request) error {
	if first := firstAddress(c); first != "" && c.Form.Get(firstInput) != first {
		return errFirst.At("body", "/"+firstInput)
	}
	return nil
}

// create adds a destination. The reader confirms the first address of a wallet before.
func (o OwnerPages) create(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, id := o.Owner(c)
	text, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	p := destination.CreateParams{OwnerID: id, Symbol: c.Form.Get("symbol"), Data: text}
	if unconfirmed := confirmed(c); unconfirmed != nil {
		if err := destination.Check(ctx, tx, Setup(c), by, p); err != nil {
			return ui.View{}, destinationFormError(err)
		}
		return ui.View{}, unconfirmed
	}
	_, owner, err := o.owner(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	d, err := destination.Create(ctx, tx, Setup(c), by, p)
	about, next := DestinationName(d), o.Back(c)
	if !o.Own {
		about = c.Text("list.pair", owner.Name, about)
	}
	switch c.Form.Get("then") {
	case "person":
		next = "/recipients/new?symbol=" + url.QueryEscape(p.Symbol)
	case "payroll":
		next = "/payrolls/new"
	}
	return ui.View{Redirect: next, About: about}, destinationFormError(err)
}

// check renders the form again with the problems of the posted destination. A script shows those of the fields that
// were filled in.
func (o OwnerPages) check(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, id := o.Owner(c)
	text, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	if err := destination.Check(ctx, tx, Setup(c), by,
		destination.CreateParams{OwnerID: id, Symbol: c.Form.Get("symbol"), Data: text}); err != nil {
		return ui.View{}, destinationFormError(err)
	}
	return o.showNew(ctx, tx, c)
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
func replacePath(prefix, distributionID string) string {
	return prefix + "/destinations/" + distributionID + "/replace"
}

// showReplace renders the form for a replacement in the same currency.
func (o OwnerPages) showReplace(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, owner, err := o.owner(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	old, err := destination.Get(ctx, tx, by, owner.ID, c.HTTP.PathValue("distribution"))
	if err != nil {
		return ui.View{}, err
	}
	p := o.page(c, owner)
	p.Replace, p.Was, p.Symbol = replacePath(p.Path, old.ID), DestinationName(old), string(old.Symbol)
	p.Rail = cmp.Or(p.Rail, old.Scheme)
	if err := p.proposeOld(c.Sealer, old); err != nil {
		return ui.View{}, err
	}
	return askDestination(c, p, o.title(c, "destination.replace", owner.Name), owner.Country,
		func(symbol string) (destination.Requirement, error) {
			return destination.Required(ctx, tx, Setup(c), by, owner.ID, symbol)
		})
}

type replacePage struct {
	Path, Back, Name string
	Own              bool   // the owner is the signed-in person
	Before, After    string // masked
	First            string // first address of the new wallet, or ""
	Part             string
	Draft            string // the posted data, sealed
}

// checkReplace shows the old and the new destination, both masked, for confirmation. The posted data travels in the
// form, sealed for this session and destination.
func (o OwnerPages) checkReplace(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, owner, err := o.owner(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	data, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	before, after, err := destination.Preview(ctx, tx, Setup(c), by,
		destination.UpdateParams{OwnerID: owner.ID, ID: c.HTTP.PathValue("distribution"), Data: data})
	if err != nil {
		return ui.View{}, destinationFormError(err)
	}
	draft, err := c.Sealer.Seal(draftSealPlace(c, owner.ID), data)
	if err != nil {
		return ui.View{}, err
	}
	p := o.page(c, owner)
	return ui.View{Template: "replace", Title: o.title(c, "destination.replace", owner.Name), Data: replacePage{
		Path: replacePath(p.Path, before.ID), Back: p.Back, Name: p.Name, Own: o.Own,
		Before: DestinationName(before), After: DestinationName(after), First: firstAddress(c),
		Part: partText(c, before), Draft: draft,
	}}, nil
}

// draftSealPlace binds a sealed draft to the session and the destination.
func draftSealPlace(c *ui.Request, owner string) identity.SealContext {
	return identity.SealContext{Table: "distributions", Column: "draft",
		Row: c.Session.ID + "/" + owner + "/" + c.HTTP.PathValue("distribution")}
}

// replace replaces a destination by the confirmed draft.
func (o OwnerPages) replace(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, id := o.Owner(c)
	data, err := c.Sealer.Open(draftSealPlace(c, id), c.Form.Get("draft"))
	if err != nil {
		return ui.View{}, ui.ErrForm
	}
	_, err = destination.Update(ctx, tx, Setup(c), by,
		destination.UpdateParams{OwnerID: id, ID: c.HTTP.PathValue("distribution"), Data: data})
	return ui.View{Redirect: o.Back(c)}, destinationFormError(err)
}

// correctionRow is a correction of a destination that a bank requested.
type correctionRow struct {
	Path, ID, What, Before string // Path is the prefix of the form actions
	Rows                   []fact // the corrected fields
	Since                  string
	Disputed               bool // the owner says that it is wrong
}

// corrections returns the corrections that banks requested for some of the destinations.
func (o OwnerPages) corrections(c *ui.Request, all []destination.Destination) (some []correctionRow) {
	for _, d := range all {
		if d.Correction == nil {
			continue
		}
		var data map[string]any
		if json.Unmarshal(d.Correction.Data, &data) != nil {
			continue
		}
		w := correctionRow{Path: o.Path(c) + "/destinations/" + d.ID, ID: d.Correction.ID, Before: DestinationName(d),
			What: d.Correction.Code, Since: c.FormatTime(d.Correction.Asked), Disputed: !d.Correction.Disputed.IsZero()}
		for _, name := range d.Correction.Members {
			value, _ := data[name].(string)
			w.Rows = append(w.Rows, fact{c.Word("bank", name), value})
		}
		some = append(some, w)
	}
	return some
}

// correct applies a bank's correction to a destination.
func (o OwnerPages) correct(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return o.answer(ctx, tx, c, destination.Correct)
}

// dispute keeps a destination as it is, because its owner says that the bank's correction is wrong.
func (o OwnerPages) dispute(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return o.answer(ctx, tx, c, destination.Dispute)
}

func (o OwnerPages) answer(ctx context.Context, tx *db.Tx, c *ui.Request, with func(ctx context.Context, tx *db.Tx,
	by identity.Principal, ownerID, id, correctionID string) (destination.Destination, error)) (ui.View, error) {
	by, id := o.Owner(c)
	_, err := with(ctx, tx, by, id, c.HTTP.PathValue("distribution"), c.Form.Get("correction_id"))
	if errors.Is(err, destination.ErrCorrection) {
		err = destination.ErrCorrection.At("body", "")
	}
	return ui.View{Redirect: o.Back(c)}, err
}

// Prefixes of the inputs for the parts of destinations.
const (
	percentInput  = "a."
	fixedInput    = "f."
	currencyInput = "c."
	restInput     = "rest"
)

// postedShares returns the posted parts, in the order of the destinations' IDs. An amount takes precedence over the
// percentage 0, and the destination that gets the remainder over its percentage.
func postedShares(c *ui.Request) (shares []destination.Share) {
	for name := range c.Form {
		d, ok := strings.CutPrefix(name, percentInput)
		if !ok {
			continue
		}
		s := destination.Share{DistributionID: d}
		percent, fixed := strings.TrimSpace(c.Form.Get(name)), strings.TrimSpace(c.Form.Get(fixedInput+d))
		if fixed != "" {
			s.FixedCurrency = c.Form.Get(currencyInput + d)
			s.FixedAmount = c.PlainAmount(fixed, money.Asset(s.FixedCurrency))
		}
		switch {
		case c.Form.Get(restInput) == d:
			s.Remainder = true
		case fixed == "" || percent != "":
			s.Allocation = json.Number(cmp.Or(percent, "0"))
		}
		shares = append(shares, s)
	}
	slices.SortFunc(shares, func(a, b destination.Share) int {
		return strings.Compare(a.DistributionID, b.DistributionID)
	})
	return shares
}

// setAllocations sets how payments are split among the destinations.
func (o OwnerPages) setAllocations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, id := o.Owner(c)
	shares := postedShares(c)
	_, err := destination.SetAllocations(ctx, tx, by, id, shares)
	return ui.View{Redirect: o.Back(c)}, shareError(shares, err)
}

// shareError maps the errors of posted parts to the inputs of the form.
func shareError(shares []destination.Share, err error) error {
	f, ok := apierr.As(err)
	if !ok || len(f.Fields) == 0 || f.Fields[0].Pointer == "/allocations" {
		return ui.WholeFormError(err)
	}
	return ui.RenameFields(f, func(pointer string) string {
		at, member, _ := strings.Cut(strings.TrimPrefix(pointer, "/allocations/"), "/")
		n, err := strconv.Atoi(at)
		if err != nil || n < 0 || n >= len(shares) {
			return pointer
		}
		switch id := shares[n].DistributionID; member {
		case "fixed_amount":
			return "/" + fixedInput + id
		case "fixed_currency":
			return "/" + currencyInput + id
		case "remainder":
			return "/" + restInput
		default:
			return "/" + percentInput + id
		}
	})
}

// previewAllocations renders the list of destinations with the posted split, without storing it.
func previewAllocations(list func(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error)) func(
	ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return func(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
		if shares := postedShares(c); len(shares) > 0 {
			if err := destination.CheckShares(shares); err != nil {
				return ui.View{}, shareError(shares, err)
			}
		}
		return list(ctx, tx, c)
	}
}

// remove removes a destination that takes no part of the payments.
func (o OwnerPages) remove(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, id := o.Owner(c)
	return ui.View{Redirect: o.Back(c)},
		ui.WholeFormError(destination.Delete(ctx, tx, by, id, c.Form.Get("distribution_id")))
}

// OwnDestinations is the list of an owner's destinations, with the forms that change them.
type OwnDestinations struct {
	Path                   string // prefix of the form actions
	Own                    bool   // the owner is the signed-in person
	Editable               bool   // the reader may change the destinations
	Destinations           ui.Table
	Corrections            []correctionRow
	Unconfirmed            []ui.Option // accounts that the owner can confirm despite the check
	Removable, Replaceable []ui.Option
	Wallets                []ui.Option // pages about who hosts the wallets
	Split                  splitForm
	History                ui.Table
}

// splitForm is how payments are split, with a preview.
type splitForm struct {
	Shares  []ui.Field
	Fixed   []ui.Field // fixed amounts and their currencies, and who gets the rest
	Open    bool       // Fixed is in use
	Amount  []ui.Field // amount and currency of the preview
	Bar     ui.Progress
	Gets    ui.Table
	Problem string // why there is no preview, or ""
}

// List returns the destinations of the owner.
func (o OwnerPages) List(ctx context.Context, tx *db.Tx, c *ui.Request) (p OwnDestinations, err error) {
	by, owner := o.Owner(c)
	all, err := destination.List(ctx, tx, by, owner)
	if err != nil {
		return p, err
	}
	p.Path, p.Own, p.Editable = o.Path(c), o.Own, o.Own || c.Session.Manages()
	p.Destinations, p.Corrections = destinationTable(c, all), o.corrections(c, all)
	for _, d := range all {
		if o.Own && confirmable(c, tx.Now(), d) {
			p.Unconfirmed = append(p.Unconfirmed, ui.Option{Value: o.Path(c) + "/destinations/" + d.ID + "/confirm",
				Label: DestinationName(d)})
		}
		if asksHosting(c, d) {
			p.Wallets = append(p.Wallets, ui.Option{Value: hostingPath(p.Path, d.ID), Label: DestinationName(d)})
		}
		p.Replaceable = append(p.Replaceable, ui.Option{Value: replacePath(p.Path, d.ID), Label: DestinationName(d)})
		if !d.Used() {
			p.Removable = append(p.Removable, ui.Option{Value: d.ID, Label: DestinationName(d)})
		}
	}
	if p.Split, err = split(ctx, tx, c, all); err != nil {
		return p, err
	}
	p.History, err = changeTable(ctx, c, tx, by, owner)
	return p, err
}

// confirmable reports whether income to a bank account waits until its owner confirms the account.
func confirmable(c *ui.Request, now time.Time, d destination.Destination) bool {
	return c.Payroll != nil && c.Payroll.Checks.Policy == destination.CheckBlocks && c.Payroll.Checks.Confirmable(now, d)
}

// ConfirmOwn records that the signed-in person confirms their bank account despite the bank's check.
func (o OwnerPages) ConfirmOwn(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if c.Payroll == nil {
		return ui.View{}, apierr.NotFoundErr
	}
	by, id := o.Owner(c)
	_, err := destination.Confirm(ctx, tx, by, c.Payroll.Checks, id, c.HTTP.PathValue("distribution"))
	return ui.View{Redirect: o.Back(c)}, ui.WholeFormError(err)
}

// previewAmount is the proposed amount of a payment whose split is previewed.
const previewAmount = "1000"

// split returns the form for the shares of destinations, with what each would receive at current rates.
func split(ctx context.Context, tx *db.Tx, c *ui.Request, all []destination.Destination) (f splitForm, err error) {
	c.Labels = map[string]string{}
	for _, d := range all {
		c.Labels[percentInput+d.ID] = c.Text("destination.share", DestinationName(d))
		c.Labels[fixedInput+d.ID] = c.Text("destination.fixed", DestinationName(d))
		c.Labels[currencyInput+d.ID] = c.Text("destination.fixed.currency")
	}
	c.Labels[restInput] = c.Text("destination.rest")
	posted := all
	if shares := postedShares(c); len(shares) > 0 {
		if some, err := destination.WithShares(all, shares); err == nil {
			posted = some
		} else {
			f.Problem = c.Text("destination.preview.none")
		}
	}
	var bar []ui.Segment
	rest := ui.Field{Name: restInput, Label: c.Labels[restInput], Type: "select",
		Options: []ui.Option{{Value: "", Label: c.Text("destination.rest.none")}}}
	for i, d := range all {
		f.Shares = append(f.Shares, c.Field(ui.Field{Name: percentInput + d.ID, Label: c.Labels[percentInput+d.ID],
			Type: "number", Value: strconv.Itoa(d.Allocation), MaxLength: 3}))
		fixed := ui.Field{Name: fixedInput + d.ID, Label: c.Labels[fixedInput+d.ID], MaxLength: 20}
		in := currencyField(ui.Field{Name: currencyInput + d.ID, Label: c.Labels[currencyInput+d.ID],
			Value: cmp.Or(string(d.Fixed.Asset()), string(money.USD))})
		if d.Fixed.Sign() > 0 {
			fixed.Value, f.Open = d.Fixed.String(), true
		}
		f.Fixed = append(f.Fixed, c.Field(fixed), c.Field(in))
		rest.Options = append(rest.Options, ui.Option{Value: d.ID, Label: DestinationName(d)})
		bar = append(bar, ui.Segment{Kind: []string{"brand", "2", "3"}[i%destination.Most], Text: DestinationName(d),
			Number: int64(posted[i].Allocation), Units: int64(posted[i].Allocation)})
		f.Open = f.Open || posted[i].Fixed.Sign() > 0
	}
	f.Fixed = append(f.Fixed, c.Field(rest))
	f.Open = f.Open || slices.ContainsFunc(f.Fixed, func(in ui.Field) bool { return in.Problem.Text != "" })
	f.Bar = c.NewProgress(c.Text("destination.split"), bar)
	currency := currencyField(ui.Field{Name: "preview_currency", Value: string(money.USD)})
	f.Amount = []ui.Field{c.Field(ui.Field{Name: "preview_amount", Value: previewAmount, MaxLength: 12}),
		c.Field(currency)}
	if c.Payroll == nil || len(all) == 0 || f.Problem != "" {
		return f, nil
	}
	asset, ok := money.Lookup(f.Amount[1].Value)
	if !ok || asset.IsCrypto() {
		return f, nil
	}
	amount, err := money.Parse(asset, c.PlainAmount(f.Amount[0].Value, asset))
	used := payroll.Allocated(posted)
	if err != nil || amount.Sign() <= 0 || len(used) == 0 {
		f.Problem = c.Text("destination.preview.none")
		return f, nil //nolint:nilerr // shown as a problem
	}
	gets, problem, err := c.Payroll.Estimate(ctx, tx, amount, used)
	if fault, is := apierr.As(err); is && fault.Kind == apierr.Unavailable || problem != "" {
		f.Problem = c.Text("destination.preview.none")
		return f, nil
	}
	f.Gets = ui.Table{Caption: c.Text("destination.preview", c.FormatMoney(amount)),
		Heads: c.Columns("destination.where|a", "destination.gets#|b")}
	for _, g := range gets {
		where := ui.Cell{Text: DestinationName(g.Destination)}
		if !g.Rate.IsZero() {
			where.Lines = []ui.Cell{{Text: c.FormatRate(g.Rate)}}
		}
		gets := c.AmountCell(g.Receives)
		if g.Receives.Asset() != g.Amount.Asset() {
			gets.Lines = []ui.Cell{c.AmountCell(g.Amount)}
		}
		f.Gets.Rows = append(f.Gets.Rows, []ui.Cell{where, gets})
	}
	return f, err
}

// currencyField makes a field a choice of the currencies that are not crypto assets.
func currencyField(f ui.Field) ui.Field {
	f.Type = "select"
	for _, a := range money.All() {
		if !a.IsCrypto() {
			f.Options = append(f.Options, ui.Option{Value: string(a), Label: string(a)})
		}
	}
	return f
}
