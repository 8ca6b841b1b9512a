package cli

import (
	"fmt"
	"runtime"

	"github.com/stipend/stipend/internal/app"
)

// VersionCmd prints the version.
type VersionCmd struct{}

// Run prints the versions of the program, of the API and of Go.
func (VersionCmd) Run(std Streams) error {
	fmt.Fprintln(std.Out, About())
	return nil
}

// About returns the versions of the program, of the API and of Go.
func About() string {
	return fmt.Sprintf("stipend %s (interface 2.0, %s, %s/%s)",
		app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
