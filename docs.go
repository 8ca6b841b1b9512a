// Package stipend embeds the documentation that the service shows at /docs.
package stipend

import "embed"

// Docs has the Markdown files of the documentation for developers.
//
//go:embed docs/guides/*.md docs/webhooks.md docs/checkout.md CHANGELOG.md
var Docs embed.FS
