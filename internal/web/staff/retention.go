package staff

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	retentionPath = ui.StaffPath + "/retention"
	holdsPath     = ui.StaffPath + "/holds"
)

// showRetention renders the last run of the retention job and the legal holds.
func showRetention(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	run, err := backoffice.LastRetention(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	last := ui.Table{Caption: c.Text("operations.retention.last"), Empty: c.Empty("operations.retention.never"),
		Heads: c.Columns("operations.retention.class|a", "operations.retention.days#|l", "operations.retention.deleted#|l",
			"operations.retention.retained#|l", "operations.since|c")}
	for _, r := range run.Classes {
		at := c.TimeCell(run.At)
		if r.Failed {
			at.Lines = []ui.Cell{{Text: c.Text("operations.retention.failed"), Warn: true}}
		}
		last.Rows = append(last.Rows, []ui.Cell{{Text: c.Word("operations.retention", r.Class)},
			{Text: c.FormatCount(int64(r.Days)), Kind: "number"}, {Text: c.FormatCount(r.Deleted), Kind: "number"},
			{Text: c.FormatCount(r.Retained), Kind: "number"}, at})
	}
	held, err := kyc.Holds(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	holds := ui.Table{Caption: c.Text("operations.holds"), Empty: c.Empty("operations.empty"),
		Heads: c.Columns("operations.object|a", "operations.reason|e", "operations.hold.by|c", "operations.since|d")}
	for _, h := range held {
		subject := ui.CodeCell(h.SubjectID)
		switch {
		case strings.HasPrefix(h.SubjectID, "com_"):
			subject = c.LinkCell(h.SubjectID, companiesPath+"/"+h.SubjectID)
		case strings.HasPrefix(h.SubjectID, "usr_"):
			subject = c.LinkCell(h.SubjectID, peoplePath+"/"+h.SubjectID)
		}
		holds.Rows = append(holds.Rows, []ui.Cell{subject, {Text: h.Reason}, {Text: h.By}, c.TimeCell(h.At)})
	}
	p := recordPage{Lead: c.Text("operations.retention.lead"), Tables: []ui.Table{last, holds}}
	for _, action := range []string{backoffice.PlaceHold, backoffice.ReleaseHold} {
		f := holdForm(c, action, "")
		f.Fields = append([]ui.Field{{Name: "subject_id", Label: c.Text("operations.object"), Required: true, MaxLength: 40}},
			f.Fields...)
		p.add(c, action, f)
	}
	return ui.View{Template: "operations_record", Title: c.Text("operations.retention"), Data: p}, nil
}

// holdForm returns the form that places a legal hold, or requests its release. An empty ID is for a field of its own.
func holdForm(c *ui.Request, action, subjectID string) actionForm {
	name := strings.ReplaceAll(action, ".", "-")
	f := actionForm{ID: name, Title: c.Word("operations.act", action), Lead: c.Text("operations." + action),
		Path: holdsPath, Button: c.Word("operations.act", action), Hidden: []ui.Option{{Label: "action", Value: action}},
		Fields: []ui.Field{reason(c)}}
	if subjectID != "" {
		f.Hidden = append(f.Hidden, ui.Option{Label: "subject_id", Value: subjectID})
	}
	return f
}

// addHold adds the legal hold on a company or a person to its record, with the form for the next action.
func (p *recordPage) addHold(ctx context.Context, tx *db.Tx, c *ui.Request, subjectID string) error {
	h, err := kyc.HoldOf(ctx, tx, subjectID)
	if err != nil {
		return err
	}
	action := backoffice.PlaceHold
	if h.SubjectID != "" {
		action = backoffice.ReleaseHold
		p.Facts = append(p.Facts, fact{c.Text("operations.hold"), c.FormatTime(h.At) + ", " + h.By})
	}
	p.add(c, action, holdForm(c, action, subjectID))
	return nil
}

// decideHold places a legal hold, or requests its release.
func decideHold(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id, why := c.Form.Get("subject_id"), c.Form.Get("reason")
	var err error
	switch action := c.Form.Get("action"); action {
	case backoffice.PlaceHold:
		err = c.Backoffice.PlaceHold(ctx, tx, *c.Staff, id, why)
	case backoffice.ReleaseHold:
		err = c.Backoffice.RequestEnd(ctx, tx, *c.Staff, action, id, why)
	default:
		err = apierr.NotFoundErr
	}
	return ui.View{Redirect: retentionPath}, ui.FormConflict(err)
}

// closeCompany requests that a company's account is closed.
func closeCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	err := c.Backoffice.RequestEnd(ctx, tx, *c.Staff, backoffice.CloseCompany, id, c.Form.Get("reason"))
	return ui.View{Redirect: companiesPath + "/" + id}, ui.FormConflict(err)
}
