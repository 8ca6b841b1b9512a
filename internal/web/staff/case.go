package staff

import (
	"cmp"
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/web/ui"
)

// caseForm returns the form that exports the case file of a company or a person.
func caseForm(c *ui.Request, at string) actionForm {
	return actionForm{ID: "case", Title: c.Text("operations.case"), Lead: c.Text("operations.case.lead"),
		Path: at + "/case", Button: c.Text("operations.case.export"), Fields: []ui.Field{reason(c)}}
}

// exportCase sends the case file of a company or a person as PDF.
func exportCase(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f, err := c.Backoffice.ExportCase(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), c.Form.Get("reason"))
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	doc := c.Documents().New(cmp.Or(f.Name, f.ID), c.Text("operations.case"), "", f.ID, tx.Now(), [][2]string{
		{"operations.object", f.ID}, {"field.email", f.Email}, {"recipient.country", f.Country},
		{"payroll.status", caseWord(c, "operations.status", f.Status)},
		{"operations.verification", caseWord(c, "operations.verified", f.Verification)},
		{"operations.since", c.FormatTime(f.Created)},
		{"operations.case.by", c.Staff.Member.Name},
	})
	p := casePDF{doc}
	p.section(c.Text("operations.verification"), len(f.Verifications), c.Text("operations.empty"))
	for _, v := range f.Verifications {
		p.entry(c.FormatTime(v.Opened), v.ID, strings.Join(append([]string{string(v.State), v.Provider}, v.Reasons...),
			" · "))
		for _, change := range v.Changes {
			p.line(c.FormatTime(db.Time(change.At)) + "  " + strings.Join([]string{change.From, change.To, change.Reason},
				" · "))
		}
	}
	p.section(c.Text("operations.queue.hits"), len(f.Hits), c.Text("operations.empty"))
	for i := range f.Hits {
		h := &f.Hits[i]
		p.entry(c.FormatTime(h.CreatedAt), h.ID, h.EntryName+" ("+h.EntryID+", "+h.Programs+") · "+h.SubjectID+" · "+
			c.Text("operations.score", c.FormatCount(int64(h.Score)))+" · "+string(h.State))
		if h.DecidedBy != "" {
			p.line(c.FormatTime(h.DecidedAt) + "  " + h.DecidedBy + ": " + h.Reason)
		}
	}
	p.section(c.Text("operations.notes"), len(f.Notes), c.Text("operations.empty"))
	for _, n := range f.Notes {
		p.entry(c.FormatTime(n.At), n.Name, n.Text)
	}
	p.section(c.Text("operations.acts"), len(f.Actions), c.Text("operations.empty"))
	for _, a := range f.Actions {
		p.entry(c.FormatTime(a.At), cmp.Or(a.Name, c.Text("operations.machine")), c.Word("operations.act", a.Action)+" · "+
			strings.TrimSpace(caseWord(c, "operations.code", a.Code)+" "+a.Reason)+" · "+a.ObjectID)
	}
	p.section(c.Text("operations.payments"), len(f.Payments), c.Text("operations.empty"))
	for _, x := range f.Payments {
		p.entry(c.FormatTime(x.At), c.Text("operations.kind."+x.Kind), x.ID+" · "+x.State+" · "+c.FormatMoney(x.Amount))
	}
	data, err := doc.Bytes()
	return ui.Download(document.File{Name: "case-" + f.ID + ".pdf", ContentType: document.TypePDF, Data: data}, err)
}

// caseWord is [ui.Request.Word], and empty for an empty value.
func caseWord(c *ui.Request, prefix, value string) string {
	if value == "" {
		return ""
	}
	return c.Word(prefix, value)
}

// casePDF writes the sections of a case file.
type casePDF struct{ *document.PDF }

// section begins a section, and writes none if it has no entries.
func (p casePDF) section(title string, entries int, none string) {
	p.Ln(3)
	p.Strong(11)
	p.MultiCell(document.Width, document.Line+2, title, "B", "L", false)
	if entries == 0 {
		p.Quiet(9)
		p.MultiCell(document.Width, document.Line, none, "", "L", false)
	}
}

// entry writes an entry: when, whose or what, and its text.
func (p casePDF) entry(at, what, text string) {
	p.Strong(8)
	p.MultiCell(document.Width, document.Line, at+"   "+what, "", "L", false)
	p.line(text)
}

// line writes a text below an entry.
func (p casePDF) line(text string) {
	p.Plain(8)
	p.SetX(document.Margin + 5)
	p.MultiCell(document.Width-5, 4, text, "", "L", false)
}
