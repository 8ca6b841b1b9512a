package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/CycloneDX/cyclonedx-go"
	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	verifier "github.com/jedisct1/go-minisign"
)

const repository = "../.."

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run returns the output of a command that must succeed.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// copySource copies the files that git does not ignore to a directory, without the history.
func copySource(t *testing.T, dir string) string {
	t.Helper()
	for name := range strings.SplitSeq(output(t, repository, "git", "ls-files", "-coz", "--exclude-standard"), "\x00") {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(repository, name))
		if errors.Is(err, os.ErrNotExist) { // deleted since the last commit
			continue
		}
		check(t, err)
		target := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(target), 0o755))
		check(t, os.WriteFile(target, data, 0o644))
	}
	return dir
}

// Two builds from different directories, with different build caches, give the same bytes. What they give is complete
// and works.
func TestReleaseIsReproducible(t *testing.T) {
	public, private, err := minisign.GenerateKey(nil)
	check(t, err)
	key, err := minisign.EncryptKey("secret", private)
	check(t, err)
	source, elsewhere := copySource(t, t.TempDir()), filepath.Join(t.TempDir(), "elsewhere")
	check(t, os.CopyFS(elsewhere, os.DirFS(source)))
	build := func(source string, env ...string) (string, []string) {
		r := Release{
			Source: source, Out: filepath.Join(t.TempDir(), "dist"), Version: "v1.2.3-rc.1",
			Commit: strings.Repeat("ab", 20), Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
			Targets: []Target{{"linux", "amd64"}}, Key: string(key) + "\n", Password: "secret", Env: env,
		}
		names, err := r.Make(t.Context())
		check(t, err)
		return r.Out, names
	}
	one, names := build(source)
	two, again := build(elsewhere, "GOCACHE="+t.TempDir())
	want := []string{
		"SHA256SUMS", "SHA256SUMS.minisig", "stipend_1.2.3-rc.1_linux_amd64.cdx.json",
		"stipend_1.2.3-rc.1_linux_amd64.deb", "stipend_1.2.3-rc.1_linux_amd64.tar.gz", "stipend_1.2.3-rc.1_oci.tar",
	}
	if !slices.Equal(names, want) || !slices.Equal(again, want) {
		t.Fatalf("the releases have the files %q and %q, want %q", names, again, want)
	}
	for _, name := range names {
		a, err := os.ReadFile(filepath.Join(one, name))
		check(t, err)
		b, err := os.ReadFile(filepath.Join(two, name))
		check(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two builds", name)
		}
	}
	t.Run("checksums", func(t *testing.T) { output(t, one, "sha256sum", "--strict", "-c", "SHA256SUMS") })
	t.Run("signature", func(t *testing.T) { checkSignature(t, one, public.String()) })
	t.Run("archive", func(t *testing.T) { checkArchive(t, filepath.Join(one, want[4])) })
	t.Run("Debian package", func(t *testing.T) { checkDebian(t, filepath.Join(one, want[3])) })
	t.Run("parts", func(t *testing.T) { checkParts(t, filepath.Join(one, want[2])) })
	t.Run("image", func(t *testing.T) { checkImage(t, filepath.Join(one, want[5])) })
}

// The signature is verified by another implementation than the one that made it.
func checkSignature(t *testing.T, dir, public string) {
	key, err := verifier.NewPublicKey(public)
	check(t, err)
	signature, err := verifier.NewSignatureFromFile(filepath.Join(dir, "SHA256SUMS.minisig"))
	check(t, err)
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	check(t, err)
	if ok, err := key.Verify(sums, signature); !ok || err != nil {
		t.Errorf("the signature is not valid: %v", err)
	}
	if ok, _ := key.Verify(append(sums, '\n'), signature); ok {
		t.Error("the signature is valid for other checksums")
	}
	if !strings.Contains(signature.TrustedComment, "v1.2.3-rc.1 commit abab") {
		t.Errorf("the trusted comment is %q", signature.TrustedComment)
	}
}

func checkArchive(t *testing.T, name string) {
	dir := t.TempDir()
	output(t, dir, "tar", "-xf", name)
	top := filepath.Join(dir, "stipend_1.2.3-rc.1_linux_amd64")
	for _, want := range []string{
		"LICENSE", "docs/operating.md", "deploy/stipend.service", "deploy/stipend.env", "deploy/compose.yaml",
	} {
		if _, err := os.Stat(filepath.Join(top, want)); err != nil {
			t.Error(err)
		}
	}
	checkBinary(t, filepath.Join(top, "stipend"))
}

// checkBinary runs a binary and asks for its version. It is static: no loader is named.
func checkBinary(t *testing.T, name string) {
	t.Helper()
	var b struct{ Version, Commit, Built, Platform string }
	check(t, json.Unmarshal([]byte(output(t, "", name, "version", "--json")), &b))
	if b.Version != "v1.2.3-rc.1" || b.Commit != strings.Repeat("ab", 20) || b.Built != "2026-07-01T12:00:00Z" ||
		b.Platform != "linux/amd64" {
		t.Errorf("the binary is %+v", b)
	}
	data, err := os.ReadFile(name)
	check(t, err)
	if bytes.Contains(data, []byte("ld-linux")) {
		t.Error("the binary is not static")
	}
}

func checkDebian(t *testing.T, name string) {
	dir := t.TempDir()
	output(t, dir, "dpkg-deb", "--extract", name, dir)
	checkBinary(t, filepath.Join(dir, "usr/bin/stipend"))
	output(t, dir, "dpkg-deb", "--control", name)
	conf, err := os.ReadFile(filepath.Join(dir, "DEBIAN/conffiles"))
	check(t, err)
	if string(conf) != "/etc/stipend/stipend.env\n" {
		t.Errorf("the package's configuration files are %q", conf)
	}
	if f, err := os.Stat(filepath.Join(dir, "etc/stipend/stipend.env")); err != nil || f.Mode().Perm() != 0o600 {
		t.Errorf("the settings, which have secrets, have %v, %v", f, err)
	}
	if fields := output(t, dir, "dpkg-deb", "--field", name, "Package", "Version", "Architecture"); fields !=
		"Package: stipend\nVersion: 1.2.3~rc.1\nArchitecture: amd64\n" {
		t.Errorf("the package is %s", fields)
	}
	for _, script := range []string{"postinst", "prerm"} {
		output(t, dir, "sh", "-n", "DEBIAN/"+script)
	}
}

func checkParts(t *testing.T, name string) {
	f, err := os.Open(name)
	check(t, err)
	defer f.Close()
	var bom cyclonedx.BOM
	check(t, cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	if bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Metadata.Component.Version != "v1.2.3-rc.1" {
		t.Errorf("the list is for %+v", bom.Metadata.Component)
	}
	var names []string
	for _, p := range *bom.Components {
		names = append(names, p.Name)
		if p.Version == "" || !strings.HasPrefix(p.PackageURL, "pkg:golang/"+p.Name+"@") {
			t.Errorf("%s has version %q and address %s", p.Name, p.Version, p.PackageURL)
		}
	}
	for _, want := range []string{"std", "github.com/jackc/pgx/v5", "modernc.org/sqlite"} {
		if !slices.Contains(names, want) {
			t.Errorf("the list lacks %s", want)
		}
	}
	if slices.Contains(names, "github.com/chromedp/chromedp") {
		t.Error("the list has a module that only tests need")
	}
}

func checkImage(t *testing.T, name string) {
	dir := t.TempDir()
	output(t, dir, "tar", "-xf", name)
	path, err := layout.FromPath(dir)
	check(t, err)
	outer, err := path.ImageIndex()
	check(t, err)
	manifest, err := outer.IndexManifest()
	check(t, err)
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	check(t, err)
	inner, err := index.IndexManifest()
	check(t, err)
	if p := inner.Manifests[0].Platform; p.String() != "linux/amd64" {
		t.Errorf("the image is for %s", p)
	}
	img, err := index.Image(inner.Manifests[0].Digest)
	check(t, err)
	config, err := img.ConfigFile()
	check(t, err)
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/stipend"}) {
		t.Errorf("the image runs %q as %q", c.Entrypoint, c.User)
	}
	modes := map[string]int64{}
	layers, err := img.Layers()
	check(t, err)
	for _, l := range layers {
		r, err := l.Compressed()
		check(t, err)
		z, err := gzip.NewReader(r)
		check(t, err)
		for all := tar.NewReader(z); ; {
			h, err := all.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			check(t, err)
			modes[h.Name] = h.Mode
			if h.Name == "etc/ssl/certs/ca-certificates.crt" && h.Size < 100_000 {
				t.Errorf("the certificates have %d bytes", h.Size)
			}
		}
		check(t, r.Close())
	}
	for name, want := range map[string]int64{
		"usr/bin/stipend": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644, "var/lib/stipend/": 0o700, "tmp/": 0o1777,
	} {
		if modes[name] != want {
			t.Errorf("%s has mode %o in the image, want %o", name, modes[name], want)
		}
	}
}

// A key that cannot sign fails the release instead of leaving it without a signature.
func TestSigningNeedsTheRightPassword(t *testing.T) {
	_, private, err := minisign.GenerateKey(nil)
	check(t, err)
	key, err := minisign.EncryptKey("secret", private)
	check(t, err)
	if _, err := (Release{Key: string(key) + "\n", Password: "wrong"}).sign(nil); err == nil {
		t.Error("a wrong password signed")
	}
	if _, err := (Release{Key: "no-such-file"}).sign(nil); err == nil {
		t.Error("a missing key signed")
	}
}

func TestVersionsAreSemantic(t *testing.T) {
	for _, v := range []string{"", "1.2.3", "v1.2", "v1.2.3 ", "v1.2.3/x"} {
		if _, err := (Release{Version: v, Out: t.TempDir()}).Make(t.Context()); err == nil {
			t.Errorf("version %q was accepted", v)
		}
	}
}

// systemd rates the exposure of the unit below 2.0.
func TestUnitIsHardened(t *testing.T) {
	output(t, "", "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
		repository+"/deploy/stipend.service")
}

// The reference implementation of the Compose specification accepts the file.
func TestComposeFileIsValid(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(repository + "/deploy/compose.yaml")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "compose.yaml"), data, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "stipend.env"), nil, 0o600))
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")},
		cli.WithEnv([]string{"POSTGRES_PASSWORD=secret"}))
	check(t, err)
	project, err := options.LoadProject(t.Context())
	check(t, err)
	service, err := project.GetService("stipend")
	check(t, err)
	const want = "postgres://stipend:secret@postgres/stipend?sslmode=disable"
	if url := *service.Environment["STIPEND_DATABASE_URL"]; url != want {
		t.Errorf("the service connects to %s", url)
	}
	for _, p := range service.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("port %s is published on %q", p.Published, p.HostIP)
		}
	}
}

// Each alert has a test with recorded series that make it fire, and one with series that do not.
func TestAlerts(t *testing.T) {
	promtool, err := filepath.Abs(repository + "/.tools/bin/promtool")
	check(t, err)
	dir := repository + "/deploy/prometheus"
	output(t, dir, promtool, "check", "rules", "alerts.yml")
	output(t, dir, promtool, "test", "rules", "alerts_test.yml")
	rules, err := os.ReadFile(dir + "/alerts.yml")
	check(t, err)
	tests, err := os.ReadFile(dir + "/alerts_test.yml")
	check(t, err)
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllSubmatch(rules, -1)
	if len(alerts) < 20 {
		t.Fatalf("%d alerts were found", len(alerts))
	}
	for _, a := range alerts {
		for _, kind := range []string{"fires", "quiet"} {
			if !bytes.Contains(tests, []byte("- name: "+string(a[1])+" "+kind+"\n")) {
				t.Errorf("no test says when %s %s", a[1], kind)
			}
		}
	}
}

// The dashboard is a document that Grafana can import: panels with expressions, in a grid without overlaps.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(repository + "/deploy/grafana/stipend.json")
	check(t, err)
	var board struct {
		Title  string
		Panels []struct {
			ID      int
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	check(t, json.Unmarshal(data, &board))
	taken, ids := map[[2]int]bool{}, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d is not valid", p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] {
					t.Fatalf("panel %d covers another", p.ID)
				}
				taken[at] = true
			}
		}
		for _, target := range p.Targets {
			if target.Expr == "" {
				t.Errorf("panel %d shows nothing", p.ID)
			}
		}
	}
	if len(board.Panels) < 20 {
		t.Errorf("%d panels", len(board.Panels))
	}
}
