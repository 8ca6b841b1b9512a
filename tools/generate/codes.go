package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

const (
	module  = "github.com/stipend/stipend"
	apiPath = module + "/internal/api"

	moneyPath = module + "/internal/money"
)

// floorsBelow are packages whose refusals every operation may answer; what they hold is not followed.
var floorsBelow = []string{module + "/internal/db", module + "/internal/fault", module + "/internal/job"}

// source is the service's own code, typed, and where each of its functions and variables is declared.
type source struct {
	packages []*packages.Package
	bodies   map[types.Object]body
	types    []*types.Named
	codes    map[string]bool
}

// body is a piece of code with the package that it is in.
type body struct {
	node ast.Node
	info *types.Info
	// store says that it reads rows: what money finds wrong there is the service's own mistake, not the client's.
	store bool
}

func load(dir string) (*source, error) {
	cfg := &packages.Config{
		Dir:  dir,
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}
	all, err := packages.Load(cfg, "./internal/...")
	if err != nil {
		return nil, err
	}
	src := &source{packages: all, bodies: map[types.Object]body{}, codes: map[string]bool{}}
	for _, p := range all {
		for _, e := range p.Errors {
			return nil, e
		}
		for _, f := range p.Syntax {
			store := filepath.Base(p.Fset.Position(f.Pos()).Filename) == "store.go"
			for _, d := range f.Decls {
				src.declare(p, d, store)
			}
		}
	}
	if len(src.codes) == 0 {
		return nil, fmt.Errorf("no codes: %s has no list of explanations", apiPath)
	}
	return src, nil
}

func (src *source) declare(p *packages.Package, d ast.Decl, store bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Body != nil {
			src.bodies[p.TypesInfo.Defs[d.Name]] = body{d.Body, p.TypesInfo, store}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if t, ok := p.TypesInfo.Defs[spec.Name].Type().(*types.Named); ok && !types.IsInterface(t) {
					src.types = append(src.types, t)
				}
			case *ast.ValueSpec:
				if d.Tok != token.VAR || len(spec.Values) == 0 {
					continue
				}
				for i, name := range spec.Names {
					src.bodies[p.TypesInfo.Defs[name]] = body{spec.Values[min(i, len(spec.Values)-1)], p.TypesInfo, store}
					if p.PkgPath == apiPath && name.Name == "explanations" {
						src.readCodes(spec.Values[0])
					}
				}
			}
		}
	}
}

// readCodes takes the codes of the list of explanations: the first text of each line.
func (src *source) readCodes(list ast.Expr) {
	for _, line := range list.(*ast.CompositeLit).Elts {
		if lit, ok := line.(*ast.CompositeLit); ok && len(lit.Elts) > 0 {
			if text, ok := stringOf(lit.Elts[0]); ok {
				src.codes[text] = true
			}
		}
	}
}

func stringOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// reach collects the codes that a piece of code, and all that it calls or names, can come to. It follows every mention, so
// it may name a code too many, never one too few.
func (src *source) reach(at body, seen map[types.Object]bool, codes map[string]bool) {
	ast.Inspect(at.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, ok := stringOf(n); ok && src.codes[text] {
				codes[text] = true
			}
		case *ast.Ident:
			if o := at.info.Uses[n]; !at.store || o == nil || o.Pkg() == nil || o.Pkg().Path() != moneyPath {
				src.follow(o, seen, codes)
			}
		}
		return true
	})
}

func (src *source) follow(o types.Object, seen map[types.Object]bool, codes map[string]bool) {
	if o == nil || o.Pkg() == nil || seen[o] || !strings.HasPrefix(o.Pkg().Path(), module) {
		return
	}
	seen[o] = true
	if o.Pkg().Path() == module+"/internal/fault" && o.Name() == "NotFoundErr" {
		codes["not_found"] = true
	}
	if slices.Contains(floorsBelow, o.Pkg().Path()) {
		return
	}
	if f, ok := o.(*types.Func); ok {
		o = f.Origin()
		if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
			src.implementations(f, recv.Type().Underlying().(*types.Interface), seen, codes)
			return
		}
	}
	if b, ok := src.bodies[o]; ok {
		src.reach(b, seen, codes)
	}
}

// implementations follows a method of an interface into every type of the service that has it.
func (src *source) implementations(f *types.Func, i *types.Interface, seen map[types.Object]bool, codes map[string]bool) {
	for _, t := range src.types {
		if t.TypeParams().Len() > 0 || !types.Implements(types.NewPointer(t), i) {
			continue
		}
		m, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), true, f.Pkg(), f.Name())
		src.follow(m, seen, codes)
	}
}

// handlerCodes finds the codes of every line of the table of routes, by the operation's name.
func (src *source) handlerCodes() map[string][]string {
	found := map[string][]string{}
	for _, p := range src.packages {
		if p.PkgPath != apiPath {
			continue
		}
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				name, handler := routeLine(lit)
				if name == "" || handler == nil {
					return true
				}
				codes := map[string]bool{}
				src.reach(body{handler, p.TypesInfo, false}, map[types.Object]bool{}, codes)
				found[name] = slices.Sorted(maps.Keys(codes))
				return true
			})
		}
	}
	return found
}

func routeLine(lit *ast.CompositeLit) (name string, handler ast.Expr) {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := kv.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "name":
			name, _ = stringOf(kv.Value)
		case key.Name == "handler":
			handler = kv.Value
		}
	}
	return name, handler
}

// codesFile writes internal/api/codes.go.
func codesFile(dir string) ([]byte, error) {
	src, err := load(dir)
	if err != nil {
		return nil, err
	}
	found := src.handlerCodes()
	var b bytes.Buffer
	b.WriteString(`// Code generated by tools/generate; DO NOT EDIT.

package api

// handlerCodes are the codes with which the handler of an operation can refuse, by the operation's name: every code that
// its code, and all that this calls, mentions.
var handlerCodes = map[string]string{
`)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&b, "%q: %q,\n", name, strings.Join(found[name], " "))
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}
