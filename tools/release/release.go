package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Target is a platform for which a binary is built.
type Target struct{ OS, Arch string }

func (t Target) String() string { return t.OS + "_" + t.Arch }

// targets are the platforms of a release.
var targets = []Target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// Release describes a release and how it is built.
type Release struct {
	Source        string // directory of the repository
	Out           string // directory to which the files are written
	Version       string // v1.2.3
	Commit        string
	Time          time.Time // time of the commit, which is the time of every file in the release
	Targets       []Target
	Key, Password string   // for the signature; without a key, the release is not signed
	Env           []string // additions to the environment of the compiler
}

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// Make builds all files and returns their names.
func (r Release) Make(ctx context.Context) ([]string, error) {
	if !semantic.MatchString(r.Version) {
		return nil, fmt.Errorf("version %q: want a semantic version such as v1.2.3", r.Version)
	}
	if err := os.RemoveAll(r.Out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "stipend-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	var images []binary
	for _, t := range r.Targets {
		b := binary{Target: t, path: filepath.Join(work, t.String(), "stipend")}
		if t.OS == "windows" {
			b.path += ".exe"
		}
		if err := r.build(ctx, b); err != nil {
			return nil, err
		}
		if err := r.archive(b); err != nil {
			return nil, fmt.Errorf("archive for %s: %w", t, err)
		}
		if err := r.listParts(b); err != nil {
			return nil, fmt.Errorf("list of parts for %s: %w", t, err)
		}
		if t.OS != "linux" {
			continue
		}
		if err := r.debian(b); err != nil {
			return nil, fmt.Errorf("debian package for %s: %w", t, err)
		}
		images = append(images, b)
	}
	if len(images) > 0 {
		if err := r.image(work, images); err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
	}
	if err := r.checksums(); err != nil {
		return nil, err
	}
	return r.files()
}

// binary is a built binary.
type binary struct {
	Target
	path string
}

// build compiles the program. The binary records the data of the release, but not directories or the state of the
// repository.
func (r Release) build(ctx context.Context, b binary) error {
	const symbols = "github.com/stipend/stipend/internal/app."
	ldflags := fmt.Sprintf("-s -w -buildid= -X %sversion=%s -X %scommit=%s -X %sbuilt=%s", symbols, r.Version, symbols,
		r.Commit, symbols, r.Time.Format(time.RFC3339))
	out, err := filepath.Abs(b.path)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", out,
		"./cmd/stipend")
	c.Dir = r.Source
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOOS="+b.OS,
		"GOARCH="+b.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off"), r.Env...)
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", b.Target, err, text)
	}
	return nil
}

// plain returns the version without the leading v.
func (r Release) plain() string { return strings.TrimPrefix(r.Version, "v") }

// name returns the path of a file of the release.
func (r Release) name(rest string) string {
	return filepath.Join(r.Out, "stipend_"+r.plain()+"_"+rest)
}

// files returns the sorted names of the release's files.
func (r Release) files() ([]string, error) {
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// checksums writes SHA256SUMS, in the format of sha256sum, and its signature.
func (r Release) checksums() error {
	names, err := r.files()
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.Out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	if err := os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if r.Key == "" {
		return nil
	}
	signature, err := r.sign([]byte(sums.String()))
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS.minisig"), signature, 0o644)
}

// document is a file that archives and packages contain in addition to the binary.
type document struct{ source, name string }

// documents returns the files that every archive contains, with their names in it: texts, and the whole directory
// deploy.
func (r Release) documents() ([]document, error) {
	all := []document{{"LICENSE", "LICENSE"}, {"README.md", "README.md"}, {"CHANGELOG.md", "CHANGELOG.md"}}
	for _, dir := range []string{"docs", "deploy"} {
		root := os.DirFS(filepath.Join(r.Source, dir))
		err := walkFiles(root, func(name string) {
			switch path.Ext(name) {
			case ".md", ".service", ".env", ".sysusers", ".yaml", ".yml", ".json", ".conf", ".sh":
				if dir == "deploy" || path.Ext(name) == ".md" {
					all = append(all, document{path.Join(dir, name), path.Join(dir, name)})
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b document) int { return strings.Compare(a.name, b.name) })
	if len(all) < 10 {
		return nil, errors.New("the source lacks its documents")
	}
	return all, nil
}
