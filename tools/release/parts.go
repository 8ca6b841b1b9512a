package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// listParts writes a list of the components of a binary, which are the Go modules and the Go release, in the format
// CycloneDX 1.6. It reads them from the binary itself.
func (r Release) listParts(b binary) error {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(data)
	bom := cyclonedx.NewBOM()
	bom.SpecVersion = cyclonedx.SpecVersion1_6
	bom.JSONSchema = "http://cyclonedx.org/schema/bom-1.6.schema.json"
	// The same binary always gets the same serial number.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, hash[:]).URN()
	program := cyclonedx.Component{
		BOMRef: "stipend", Type: cyclonedx.ComponentTypeApplication, Name: "stipend", Version: r.Version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + r.Version + "?goos=" + b.OS + "&goarch=" + b.Arch,
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash[:])}},
		Properties: &[]cyclonedx.Property{{Name: "vcs:revision", Value: r.Commit}},
	}
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.Time.Format(time.RFC3339), Component: &program}
	parts := []cyclonedx.Component{part("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		parts = append(parts, module(m))
	}
	slices.SortFunc(parts, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	f, err := os.Create(r.name(b.String() + ".cdx.json"))
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// module returns the component that describes a linked Go module.
func module(m *debug.Module) cyclonedx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	p := part(m.Path, m.Version)
	if m.Sum != "" {
		p.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return p
}

func part(name, version string) cyclonedx.Component {
	url := "pkg:golang/" + name + "@" + version
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url,
	}
}
