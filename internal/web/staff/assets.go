package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/web/ui"
)

const assetsPath = ui.StaffPath + "/assets"

// showAssets renders the states of assets, and a form to change one.
func showAssets(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	states, err := offering.All(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("operations.assets"), Heads: c.Columns("operations.asset|a", "payroll.status|b")}
	asset := ui.Field{Name: "asset", Label: c.Text("operations.asset"), Type: "select", Value: c.Form.Get("asset")}
	for _, a := range money.All() {
		s, switched := states[a]
		if !switched {
			s = offering.Offered
		}
		asset.Options = append(asset.Options, ui.Option{Value: string(a), Label: string(a),
			Selected: string(a) == asset.Value})
		if switched || a.IsCrypto() || a == money.USD || a == money.EUR {
			t.Rows = append(t.Rows, []ui.Cell{{Text: string(a)}, c.StateCell("operations.asset", string(s))})
		}
	}
	state := ui.Field{Name: "state", Label: c.Text("payroll.status"), Type: "select"}
	for _, s := range offering.States {
		state.Options = append(state.Options, ui.Option{Value: string(s), Label: c.Text("operations.asset." + string(s)),
			Selected: string(s) == c.Form.Get("state")})
	}
	p := recordPage{Lead: c.Text("operations.assets.lead"), Tables: []ui.Table{t}}
	p.add(c, backoffice.SwitchAsset, actionForm{ID: "switch", Title: c.Text("operations.assets.switch"),
		Path: assetsPath, Button: c.Text("operations.assets.switch"), Fields: []ui.Field{asset, state, reason(c)}})
	return ui.View{Template: "operations_record", Title: c.Text("operations.assets"), Data: p}, nil
}

// switchAsset changes the state of an asset, or requests it.
func switchAsset(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.SwitchAsset(ctx, tx, *c.Staff, c.Form.Get("asset"), offering.State(c.Form.Get("state")),
		c.Form.Get("reason"))
	return ui.View{Redirect: assetsPath}, ui.FormConflict(err)
}
