package cli

import (
	"encoding/json"
	"fmt"

	"github.com/stipend/stipend/internal/app"
)

// VersionCmd prints the version.
type VersionCmd struct {
	JSON bool `name:"json" help:"Print version, commit, time of the commit, Go and platform as JSON."`
}

// Run prints the versions of the program, of the API and of Go.
func (c VersionCmd) Run(std Streams) error {
	if !c.JSON {
		fmt.Fprintln(std.Out, About())
		return nil
	}
	e := json.NewEncoder(std.Out)
	e.SetIndent("", "  ")
	return e.Encode(app.ReadBuild())
}

// About returns the versions of the program, of the API and of Go.
func About() string {
	b := app.ReadBuild()
	return fmt.Sprintf("stipend %s (interface %s, %s, %s)", b.Version, b.Interface, b.Go, b.Platform)
}
