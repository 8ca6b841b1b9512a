package staff

import (
	"context"
	"encoding/json"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/web/ui"
)

const travelRulePath = ui.StaffPath + "/travel-rule"

// showTravelRule lists the records of large payouts of crypto assets.
func showTravelRule(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if c.TravelRule == nil {
		return ui.View{}, apierr.NotFoundErr
	}
	all, err := c.TravelRule.Records(ctx, tx, c.Query("q"), backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("operations.travel_rule"),
		Heads: c.Columns("operations.since|d", "operations.object|a", "operations.company|e", "field.hosting|c",
			"payment.amount#|b")}
	for _, r := range all {
		object := c.LinkCell(r.ID, travelRulePath+"/"+r.ID)
		object.Lines = []ui.Cell{ui.CodeCell(r.ObjectID), ui.CodeCell(r.OutputID)}
		amount := c.AmountCell(r.Amount)
		amount.Lines = []ui.Cell{c.AmountCell(r.Value)}
		company, err := companyCell(ctx, tx, c, r.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(r.Created), object, company,
			{Text: c.Word("hosting", string(r.Document.Hosting))}, amount})
	}
	filters := c.FilterBar(travelRulePath, search(c, "operations.travel_rule.text"))
	t.Empty = c.EmptyList(filters, c.EmptyStep("scroll-text", "operations.travel_rule.none", false, "", ""))
	return ui.View{Template: "operations_list", Title: c.Text("operations.travel_rule"), Data: listPage{
		Lead: c.Text("operations.travel_rule.lead"), Filters: filters, Table: t}}, nil
}

// personFacts describes a person of a record.
func personFacts(c *ui.Request, title string, p travelrule.Person) (all []fact) {
	var at []travelrule.Address
	if n := p.NaturalPerson; n != nil {
		for _, name := range n.Name.NameIdentifier {
			all = append(all, fact{c.Text(title), name.SecondaryIdentifier + " " + name.PrimaryIdentifier})
		}
		at = n.GeographicAddress
	}
	if l := p.LegalPerson; l != nil {
		for _, name := range l.Name.NameIdentifier {
			all = append(all, fact{c.Text(title), name.LegalPersonName})
		}
		at = l.GeographicAddress
	}
	for _, a := range at {
		text := ""
		for _, line := range append(a.AddressLine, a.PostCode+" "+a.TownName, a.Country) {
			text += line + ", "
		}
		all = append(all, fact{c.Text("operations.travel_rule.address"), text[:len(text)-2]})
	}
	return all
}

// showTravelRecord renders the record of a payout.
func showTravelRecord(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if c.TravelRule == nil {
		return ui.View{}, apierr.NotFoundErr
	}
	r, err := c.TravelRule.Get(ctx, tx, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	doc := r.Document.IVMS101
	p := recordPage{Facts: []fact{{c.Text("operations.object"), r.ObjectID}, {c.Text("operations.since"),
		c.FormatTime(r.Created)}, {c.Text("payment.amount"), c.FormatMoney(r.Amount)},
		{c.Text("operations.travel_rule.value"), c.FormatMoney(r.Value)}}}
	for _, x := range doc.Originator.Persons {
		p.Facts = append(p.Facts, personFacts(c, "operations.travel_rule.originator", x)...)
	}
	for _, x := range doc.Beneficiary.Persons {
		p.Facts = append(p.Facts, personFacts(c, "operations.travel_rule.beneficiary", x)...)
	}
	for _, x := range doc.Beneficiary.AccountNumber {
		p.Facts = append(p.Facts, fact{c.Text("hosting.address"), x})
	}
	p.Facts = append(p.Facts, fact{c.Text("field.hosting"), c.Word("hosting", string(r.Document.Hosting))})
	if v := doc.BeneficiaryVASP; v != nil {
		p.Facts = append(p.Facts, personFacts(c, "field.vasp_name", v.VASP)...)
	}
	if proof := r.Document.Proof; proof != nil {
		p.Facts = append(p.Facts, fact{c.Text("hosting.proved"), c.FormatTime(proof.At)},
			fact{c.Text("field.signature"), proof.Format + ": " + proof.Signature},
			fact{c.Text("hosting.challenge"), proof.Message})
	}
	p.Forms = []actionForm{{ID: "record", Title: c.Text("operations.travel_rule.export"),
		Lead: c.Text("operations.case.lead"), Path: travelRulePath + "/" + r.ID,
		Button: c.Text("operations.travel_rule.export"), Fields: []ui.Field{reason(c)}}}
	return ui.View{Template: "operations_record", Title: c.Text("operations.travel_rule"), Data: p}, nil
}

// exportTravelRecord sends the record of a payout as IVMS101 JSON.
func exportTravelRecord(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if c.TravelRule == nil {
		return ui.View{}, apierr.NotFoundErr
	}
	r, err := c.TravelRule.Get(ctx, tx, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	if err := c.Backoffice.ExportedRecord(ctx, tx, *c.Staff, r.CompanyID, r.ID, c.Form.Get("reason")); err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	text, err := json.MarshalIndent(r.Document.IVMS101, "", "  ")
	return ui.Download(document.File{Name: "ivms101-" + r.ID + ".json", ContentType: "application/json", Data: text}, err)
}
