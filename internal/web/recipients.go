package web

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
)

// What recipients can be filtered by.
var (
	recipientRoles  = []string{payee.Contractor, payee.Employee, payee.Vendor}
	recipientStates = []string{payee.Active, payee.Pending, payee.Inactive}
	recipientTypes  = []string{payee.TypeUser, payee.TypeCompany}
	recipientSorts  = []string{"name", "email", "created"}
)

func recipientPath(id string) string { return "/recipients/" + id }

type recipientsPage struct {
	Filters    []field
	Recipients table
	Pager      pager
}

// among is a parameter of the address that is one of some values, "" for anything else.
func (c *call) among(name string, values []string) string {
	if v := c.query(name); slices.Contains(values, v) {
		return v
	}
	return ""
}

// listRecipients are whom the company pays, as the filters choose.
func listRecipients(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	params := payee.ListParams{
		Search: c.query("search"), Role: c.among("role", recipientRoles), Type: c.among("recipient_type", recipientTypes),
		Status: c.among("status", recipientStates), SortBy: c.among("sort_by", recipientSorts), Page: payee.Page{Number: c.page(), PerPage: perPage},
	}
	if country := strings.ToUpper(c.query("country")); identity.IsCountry(country) {
		params.Country = country
	}
	found, err := payee.List(ctx, tx, c.session.Principal(), params)
	if err != nil {
		return view{}, err
	}
	t := table{Caption: c.text("recipients.title"), Empty: c.text("recipients.none"), Heads: c.heads(
		"recipient.name", "recipient.role", "field.recipient_type", "payroll.status", "recipient.country", "field.external_id", "recipient.since")}
	for _, r := range found.Items {
		name := c.link(r.Name, recipientPath(r.ID))
		if r.Email != "" {
			name.Lines = []cell{{Text: r.Email}}
		}
		t.Rows = append(t.Rows, []cell{
			name, {Text: c.role(r.Role)}, {Text: c.word("recipient.type", r.Type)}, {Text: c.word("recipient.status", r.Status)},
			{Text: r.Country}, {Text: r.ExternalID}, {Text: c.day(r.Created), ISO: r.Created.UTC().Format("2006-01-02")},
		})
	}
	sorts := []option{{Value: "", Label: c.text("sort.newest")}}
	for _, s := range recipientSorts {
		sorts = append(sorts, option{Value: s, Label: c.text("sort." + s)})
	}
	p := recipientsPage{Recipients: t, Pager: c.pager(params.Page.Number, perPage, int64(found.Total)), Filters: []field{
		c.filter(field{Name: "search", Most: 100}),
		c.filter(field{Name: "status", Type: "select", Options: c.choices("recipient.status", recipientStates...)}),
		c.filter(field{Name: "role", Type: "select", Options: c.choices("role", recipientRoles...)}),
		c.filter(field{Name: "recipient_type", Type: "select", Options: c.choices("recipient.type", recipientTypes...)}),
		c.filter(field{Name: "country", Label: c.text("recipient.country"), Most: 2}),
		c.filter(field{Name: "sort_by", Type: "select", Options: sorts}),
	}}
	return view{page: "recipients", title: c.text("recipients.title"), wide: true, data: p}, nil
}

// showNewRecipient asks who somebody without a login is.
func showNewRecipient(_ context.Context, _ *db.Tx, c *call) (view, error) {
	words := func(prefix string, values ...string) (all []option) {
		for _, v := range values {
			all = append(all, option{Value: v, Label: c.word(prefix, v)})
		}
		return all
	}
	return view{page: "recipient_new", title: c.text("recipients.new"), data: []field{
		c.field(field{Name: "recipient_type", Type: "select", Options: words("recipient.type", recipientTypes...)}),
		c.field(field{Name: "first_name", Most: 100}),
		c.field(field{Name: "last_name", Most: 100}),
		c.field(field{Name: "firm", Most: 200}),
		c.field(field{Name: "country", Label: c.text("recipient.country"), Hint: c.text("recipient.country.hint"), Required: true, Most: 2}),
		c.field(field{Name: "email", Type: "email", Label: c.text("recipient.email"), Most: 254}),
		c.field(field{Name: "role", Type: "select", Options: words("role", recipientRoles...)}),
		c.field(field{Name: "department", Most: 100}),
		c.field(field{Name: "external_id", Most: 255}),
	}}, nil
}

// createRecipient adds somebody without a login.
func createRecipient(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	value := func(name string) string { return strings.TrimSpace(c.form.Get(name)) }
	r, err := payee.Create(ctx, tx, c.Sealer, c.session.Principal(), payee.CreateParams{
		ExternalID: value("external_id"), Type: value("recipient_type"), Role: value("role"), Department: value("department"), Name: value("firm"),
		Profile: identity.Profile{Email: value("email"), FirstName: value("first_name"), LastName: value("last_name"), Country: strings.ToUpper(value("country"))},
	})
	if f, ok := apierr.As(err); ok {
		return view{}, renamed(f, func(pointer string) string {
			if pointer == "/name" {
				return "/firm"
			}
			return pointer
		})
	}
	return view{redirect: recipientPath(r.ID)}, err
}

// renamed is a fault whose problems stand at a form's own fields.
func renamed(f *apierr.Fault, to func(pointer string) string) error {
	kept := *f
	kept.Fields = slices.Clone(f.Fields)
	for i := range kept.Fields {
		kept.Fields[i].Pointer = to(kept.Fields[i].Pointer)
	}
	return &kept
}

type recipientPage struct {
	payee.Recipient
	Path, RoleName, TypeName, StatusName, Since, LastPaid string
	Theirs                                                bool // only they see and change where they are paid
	Destinations                                          table
	Allocations                                           []field
	Total                                                 said // what is wrong with the allocations together
	Removable, Replaceable                                []option
	Corrections                                           []correctionShown
	History                                               table
	Stopped                                               bool
}

// showRecipient is one payee: who they are, where they are paid, and who changed that.
func showRecipient(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	r, err := payee.Get(ctx, tx, by, "", c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	p := recipientPage{
		Recipient: r, Path: recipientPath(r.ID), RoleName: c.role(r.Role), TypeName: c.word("recipient.type", r.Type),
		StatusName: c.word("recipient.status", r.Status), Since: c.day(r.Created), Stopped: r.Status == payee.Inactive,
	}
	if _, last, err := payroll.Payments(ctx, tx, r.CompanyID, r.ID); err != nil {
		return view{}, err
	} else if !last.IsZero() {
		p.LastPaid = c.instant(last)
	}
	all, err := destination.List(ctx, tx, by, r.ID)
	if errors.Is(err, apierr.NotFoundErr) {
		p.Theirs, err = true, nil
	}
	if err != nil {
		return view{}, err
	}
	p.Destinations, p.Corrections = c.destinationTable(all), c.corrections(r.ID, all)
	c.labels = map[string]string{}
	for _, d := range all {
		c.labels["a."+d.ID] = c.text("destination.share", destinationName(d))
	}
	for _, d := range all {
		p.Allocations = append(p.Allocations, c.field(field{Name: "a." + d.ID, Label: c.labels["a."+d.ID], Type: "number", Value: strconv.Itoa(d.Allocation), Most: 3}))
		p.Replaceable = append(p.Replaceable, option{Value: replacePath(r.ID, d.ID), Label: destinationName(d)})
		if d.Allocation == 0 {
			p.Removable = append(p.Removable, option{Value: d.ID, Label: destinationName(d)})
		}
	}
	if !p.Theirs {
		if p.History, err = c.changeTable(ctx, tx, by, r.ID); err != nil {
			return view{}, err
		}
	}
	return view{page: "recipient", title: r.Name, wide: true, data: p}, nil
}

// destinationName tells a destination from others and shows no more of it than that.
func destinationName(d destination.Distribution) string {
	return strings.TrimSpace(string(d.Symbol) + " " + d.Hint())
}

func (c *call) destinationTable(all []destination.Distribution) table {
	t := table{Caption: c.text("destinations.title"), Empty: c.text("destinations.none"), Heads: c.heads("destination.where", "destination.network", "destination.part#", "payroll.created")}
	for _, d := range all {
		network := d.Network
		if d.Kind == destination.Fiat {
			network = strings.TrimSpace(d.Country + " " + d.Scheme)
		}
		where := cell{Text: destinationName(d)}
		if !c.setup().Payable(d.Symbol, d.Network) {
			where.Lines = []cell{{Text: c.text("destination.unpaid"), Warn: true}}
		}
		t.Rows = append(t.Rows, []cell{where, {Text: network}, {Text: strconv.Itoa(d.Allocation) + "\u00a0%", Kind: "number"}, c.at(d.Created)})
	}
	return t
}

// changesShown is how much of a payee's history a page shows.
const changesShown = 50

// changeTable tells who changed where a payee is paid. It is kept for ever.
func (c *call) changeTable(ctx context.Context, tx *db.Tx, by identity.Principal, owner string) (table, error) {
	t := table{Caption: c.text("changes.title"), Empty: c.text("changes.none"), Heads: c.heads("step.at", "changes.what", "destination.where", "changes.part", "changes.by")}
	some, _, err := destination.History(ctx, tx, by, owner, changesShown, 0)
	if err != nil {
		return t, err
	}
	for _, h := range some {
		before, after := stateOf(h.Before), stateOf(h.After)
		now := after
		if now.Symbol == "" {
			now = before
		}
		var part string
		switch {
		case before.Symbol == "":
			part = strconv.Itoa(after.Allocation) + "\u00a0%"
		case after.Symbol == "":
			part = strconv.Itoa(before.Allocation) + "\u00a0%"
		default:
			part = strconv.Itoa(before.Allocation) + "\u00a0% → " + strconv.Itoa(after.Allocation) + "\u00a0%"
		}
		who := cell{Text: c.word("credential", string(h.By.Kind))}
		if h.By.UserID != "" {
			who.Lines = []cell{code(h.By.UserID)}
		} else if h.By.CredentialID != "" {
			who.Lines = []cell{code(h.By.CredentialID)}
		}
		t.Rows = append(t.Rows, []cell{c.at(h.At), {Text: c.word("change", h.Action)}, {Text: destinationName(now)}, {Text: part}, who})
	}
	return t, nil
}

// deactivate stops a recipient from being paid; reactivate lets them be paid again.
func deactivateRecipient(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r, err := payee.Deactivate(ctx, tx, c.session.Principal(), "", c.r.PathValue("id"))
	return view{redirect: recipientPath(r.ID)}, err
}

func reactivateRecipient(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r, err := payee.Reactivate(ctx, tx, c.session.Principal(), "", c.r.PathValue("id"))
	return view{redirect: recipientPath(r.ID)}, err
}
