package app

import (
	"runtime"
	"runtime/debug"
)

// Interface is the version of the API.
const Interface = "2.0"

// Set by the linker in a release (tools/release).
var version, commit, built string

// Build describes how the program was built.
type Build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`             // "" if unknown
	Built     string `json:"built"`              // the time of the commit, so that builds are reproducible
	Modified  bool   `json:"modified,omitempty"` // reports whether files differed from the commit
	Interface string `json:"interface"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
}

// ReadBuild returns how this program was built, as set by a release or else as recorded by the Go tool.
func ReadBuild() Build {
	b := Build{
		Version: version, Commit: commit, Built: built, Interface: Interface, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b.Version != "" {
		return b
	}
	b.Version = "devel"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Built = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Version returns the version of the program.
func Version() string { return ReadBuild().Version }
