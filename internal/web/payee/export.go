package payee

import (
	"context"
	"encoding/json"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// exportData returns the person's own data as a JSON file.
func exportData(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, err := payments(c).Export(ctx, tx, c.KYC, true)
	if err != nil {
		return ui.View{}, err
	}
	data, err := json.MarshalIndent(e, "", "  ")
	return ui.View{File: &ui.File{Name: "stipend-" + e.UserID + ".json", ContentType: "application/json", Data: data}}, err
}
