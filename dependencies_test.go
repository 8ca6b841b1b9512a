package stipend_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// licenses recognizes licenses by their texts, in this order.
var licenses = []struct{ name, text string }{
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"BSD", "Redistribution and use in source and binary forms"},
	{"ISC", "Permission to use, copy, modify, and"},
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)

// licenseOf returns the name of the license in a module's directory, or "".
func licenseOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, l := range licenses {
			if strings.Contains(strings.ToLower(words), strings.ToLower(l.text)) {
				return l.name
			}
		}
	}
	return ""
}

// Every module that is imported directly has a row with its license and the reason for it. Everything that is linked
// has a permitted license.
func TestDependenciesHaveReasonsAndLicenses(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ license, why string }
	rows := map[string]row{}
	lines := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$")
	for _, m := range lines.FindAllStringSubmatch(string(doc), -1) {
		rows[m[1]] = row{m[2], m[3]}
	}
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		direct[m[1]] = true
		if rows[m[1]].why == "" {
			t.Errorf("docs/dependencies.md lacks %s: why is it needed?", m[1])
		}
	}
	if len(direct) < 20 {
		t.Fatalf("%d direct dependencies were read from go.mod", len(direct))
	}
	for name := range rows {
		if !direct[name] {
			t.Errorf("docs/dependencies.md lists %s, which go.mod does not require directly", name)
		}
	}
	list := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return string(out)
	}
	modules := list(append([]string{"-m", "-f", "{{.Path}} {{.Dir}}"}, slices.Sorted(maps.Keys(direct))...)...) +
		list("-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/stipend")
	seen := map[string]bool{}
	for line := range strings.Lines(modules) {
		name, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		switch license := licenseOf(t, dir); {
		case license == "":
			t.Errorf("%s has no license, or one that is not permitted", name)
		case direct[name] && rows[name].license != license:
			t.Errorf("docs/dependencies.md says that %s is %s; its license is %s", name, rows[name].license, license)
		}
	}
}
