// Package stipend embeds the documentation that the service shows at /docs.
package stipend

import "embed"

// Docs has the Markdown files of the documentation for developers, and the files that it offers for download.
//
//go:embed docs/guides/*.md docs/webhooks.md docs/checkout.md docs/lightning.md docs/banks.md docs/direct-debit.md
//go:embed docs/states.md docs/glossary.md
//go:embed CHANGELOG.md api/postman.json api/payroll.arazzo.yaml
var Docs embed.FS
