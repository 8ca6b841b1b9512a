package merchant

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// styleSheet sends the style sheet of an accent color.
func styleSheet(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	css, ok := branding.StyleSheet(c.HTTP.PathValue("file"))
	if !ok {
		return ui.View{}, ui.ErrNoPage
	}
	return ui.View{File: &ui.File{ContentType: "text/css; charset=utf-8", Data: css, Immutable: true}}, nil
}

// logo sends a merchant's logo.
func logo(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	digest, ok := strings.CutSuffix(c.HTTP.PathValue("file"), ".png")
	if !ok {
		return ui.View{}, ui.ErrNoPage
	}
	png, err := branding.Logo(ctx, tx, digest)
	return ui.View{File: &ui.File{ContentType: "image/png", Data: png, Immutable: true}}, err
}
