package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user ID of the image. This user is not root and owns the data directory.
const imageUser = 65532

// image writes an OCI image layout, with an image for each binary, as a tar file that `docker load`, `podman load`
// and `skopeo` can read.
func (r Release) image(work string, binaries []binary) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		img, err := r.imageOf(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.OS, Architecture: b.Arch}},
		})
	}
	dir := filepath.Join(work, "image")
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.plain(),
		"io.containerd.image.name":          "docker.io/library/stipend:" + r.plain(),
	})); err != nil {
		return err
	}
	var entries []entry
	root := os.DirFS(dir)
	var failed error
	if err := walkFiles(root, func(name string) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			failed = err
		}
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	f, err := os.Create(r.name("oci.tar"))
	if err != nil {
		return err
	}
	if err := writeTar(f, entries, r.Time); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// imageOf returns the image of a binary, which contains the program, the root certificates, and directories for data.
func (r Release) imageOf(b binary) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	layers := [][]entry{
		{
			{name: "etc/", mode: 0o755},
			{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nstipend:x:65532:\n")},
			{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/root:/sbin/nologin\n" +
				"stipend:x:65532:65532:Stipend:/var/lib/stipend:/sbin/nologin\n")},
			{name: "etc/ssl/", mode: 0o755},
			{name: "etc/ssl/certs/", mode: 0o755},
			{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities()},
			{name: "tmp/", mode: 0o1777},
			{name: "var/", mode: 0o755},
			{name: "var/lib/", mode: 0o755},
			{name: "var/lib/stipend/", mode: 0o700, uid: imageUser},
		},
		{{name: "usr/", mode: 0o755}, {name: "usr/bin/", mode: 0o755}, {name: "usr/bin/stipend", mode: 0o755, data: program}},
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, entries := range layers {
		var data bytes.Buffer
		if err := writeTar(&data, entries, r.Time); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data.Bytes())), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: r.Time}, CreatedBy: "tools/release"},
		}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.OS, b.Arch, v1.Time{Time: r.Time}
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/bin/stipend"}, Cmd: []string{"serve"},
		WorkingDir: "/var/lib/stipend", Volumes: map[string]struct{}{"/var/lib/stipend": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}},
		Env: []string{
			"STIPEND_DATA_DIR=/var/lib/stipend", "STIPEND_LISTEN=0.0.0.0:8080", "STIPEND_METRICS_LISTEN=0.0.0.0:9090",
		},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Stipend",
			"org.opencontainers.image.version":  r.plain(),
			"org.opencontainers.image.revision": r.Commit,
		},
	}
	return mutate.ConfigFile(img, config)
}

// authorities returns the root certificates that Mozilla trusts for servers, except those that it trusts with
// restrictions.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // writing to a buffer never fails
		}
	}
	return all.Bytes()
}
