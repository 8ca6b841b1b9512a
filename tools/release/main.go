// Command release builds the files of a release: binaries for each platform in archives, Debian packages, an OCI
// image, lists of components, checksums, and a signature.
//
// It needs no C compiler, daemon or root privileges. The same commit, version and Go release give the same bytes on
// every machine. Only the signature needs a secret, which the environment contains: STIPEND_RELEASE_KEY is a minisign
// secret key or the path of its file, and STIPEND_RELEASE_PASSWORD is its password, if it has one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	source := flags.String("source", "../..", "directory of the repository")
	out := flags.String("out", "../../dist", "directory of the release, which is emptied first")
	version := flags.String("version", "", "version, such as v1.2.3; default: the tag of the commit, or v0.0.0-COMMIT")
	platforms := flags.String("platforms", "", "platforms, such as linux/amd64, separated by commas; default: all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := describe(ctx, *source, *version)
	if err != nil {
		return err
	}
	if *platforms != "" {
		r.Targets = nil
		for platform := range strings.SplitSeq(*platforms, ",") {
			system, arch, _ := strings.Cut(platform, "/")
			if !slices.Contains(targets, Target{system, arch}) {
				return fmt.Errorf("platform %q: want one of %v", platform, targets)
			}
			r.Targets = append(r.Targets, Target{system, arch})
		}
	}
	clean, err := os.MkdirTemp("", "stipend-source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(clean)
	if err := export(ctx, *source, r.Commit, clean); err != nil {
		return err
	}
	r.Source, r.Out = clean, *out
	r.Key, r.Password = os.Getenv("STIPEND_RELEASE_KEY"), os.Getenv("STIPEND_RELEASE_PASSWORD")
	files, err := r.Make(ctx)
	if err != nil {
		return err
	}
	for _, name := range files {
		fmt.Println(filepath.Join(r.Out, name))
	}
	if r.Key == "" {
		fmt.Fprintln(os.Stderr, "release: not signed, because STIPEND_RELEASE_KEY is not set")
	}
	return nil
}

// export copies the files of a commit to a directory, so that the release contains nothing else.
func export(ctx context.Context, source, commit, dir string) error {
	archive := filepath.Join(dir, ".tar")
	for _, c := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "-C", source, "archive", "--format=tar", "--output="+archive, commit),
		exec.CommandContext(ctx, "tar", "-C", dir, "-xf", archive),
	} {
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("copy the files of the commit: %w\n%s", err, text)
		}
	}
	return os.Remove(archive)
}

// describe returns the release of the checked-out commit.
func describe(ctx context.Context, source, version string) (Release, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", source}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		return Release{}, fmt.Errorf("read the commit: %w", err)
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return Release{}, err
	}
	if changed != "" {
		return Release{}, errors.New("files differ from the commit: commit or restore them first")
	}
	date, err := git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return Release{}, err
	}
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return Release{}, err
	}
	if version == "" {
		if version, err = git("describe", "--tags", "--exact-match", "--match=v*", "HEAD"); err != nil {
			version = "v0.0.0-" + commit[:12]
		}
	}
	return Release{Version: version, Commit: commit, Time: at.UTC(), Targets: targets}, nil
}
