package main

import (
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// debian writes the Debian package for a platform.
func (r Release) debian(b binary) error {
	deploy := func(name string) string { return filepath.Join(r.Source, "deploy", name) }
	file := func(source, destination string, mode os.FileMode) *files.Content {
		return &files.Content{
			Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.Time},
		}
	}
	settings := file(deploy("stipend.env"), "/etc/stipend/stipend.env", 0o600)
	settings.Type = files.TypeConfigNoReplace
	contents := files.Contents{
		file(b.path, "/usr/bin/stipend", 0o755),
		file(deploy("stipend.service"), "/usr/lib/systemd/system/stipend.service", 0o644),
		file(deploy("stipend.sysusers"), "/usr/lib/sysusers.d/stipend.conf", 0o644),
		file(filepath.Join(r.Source, "LICENSE"), "/usr/share/doc/stipend/copyright", 0o644),
		settings,
	}
	docs, err := r.documents()
	if err != nil {
		return err
	}
	for _, d := range docs {
		contents = append(contents, file(filepath.Join(r.Source, d.source), "/usr/share/doc/stipend/"+d.name, 0o644))
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "stipend", Arch: b.Arch, Platform: b.OS, Version: r.plain(), VersionSchema: "semver", Section: "net",
		Priority: "optional", Maintainer: "Stipend <stipend@localhost>", License: "see /usr/share/doc/stipend/copyright",
		Description: "payments and payroll service\n" +
			"Stipend pays people: a company funds a payroll with one payment, and each payee\n" +
			"is paid where they chose to be paid.",
		MTime: r.Time,
		Overridables: nfpm.Overridables{
			Contents: contents, Recommends: []string{"ca-certificates"}, Suggests: []string{"postgresql"},
			Scripts: nfpm.Scripts{PostInstall: deploy("postinst.sh"), PreRemove: deploy("prerm.sh")},
		},
	})
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	f, err := os.Create(r.name(b.String() + ".deb"))
	if err != nil {
		return err
	}
	if err := deb.Default.Package(info, f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
