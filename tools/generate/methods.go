package main

import (
	"fmt"
	"strings"
)

// methodsFile is the documentation page that lists the methods of the SDKs.
const methodsFile = "docs/guides/sdk-methods.md"

// methodsPage returns that page, with the method of each operation in each language.
func methodsPage(m *model) string {
	var b strings.Builder
	b.WriteString(`# SDK methods

The SDKs for Go, TypeScript and Python have one method for each operation of the API, with the same names in the
style of each language. IDs of the path come first, in order; then the parameters of the query or the members of the
body. A list has a second method, which iterates over the items of all pages.

`)
	for _, s := range m.services {
		title := strings.ToUpper(s.name[:1]) + strings.ReplaceAll(s.name[1:], "_", " ")
		fmt.Fprintf(&b, "## %s\n\n| Operation | Go | TypeScript | Python |\n|---|---|---|---|\n", title)
		for _, e := range s.endpoints {
			names := []string{e.name}
			if e.paging != "" {
				names = append(names, e.all())
			}
			columns := make([][]string, 3)
			for _, name := range names {
				columns[0] = append(columns[0], "`"+goName(s.name)+"."+goName(name)+"`")
				columns[1] = append(columns[1], "`"+camelName(s.name)+"."+camelName(name)+"`")
				columns[2] = append(columns[2], "`"+s.name+"."+pyName(name)+"`")
			}
			fmt.Fprintf(&b, "| `%s %s`%s |", e.verb, e.path, map[bool]string{true: " (deprecated)"}[e.deprecated])
			for _, c := range columns {
				b.WriteString(" " + strings.Join(c, ", ") + " |")
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
