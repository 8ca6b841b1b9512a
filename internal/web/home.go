package web

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// home says what this is, to somebody who came by the address alone.
func home(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return view{page: "home", title: c.text("home.title"), data: c.decides()}, nil
}
