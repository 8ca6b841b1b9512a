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
	apiPath = module + "/internal/httpapi"

	moneyPath = module + "/internal/money"
)

// floorsBelow are packages whose refusals every operation may answer; what they hold is not followed.
var floorsBelow = []string{module + "/internal/db", module + "/internal/apierr", module + "/internal/job"}

// source is the service's own code, typed, and where each of its functions and variables is declared.
type source struct {
	packages []*packages.Package
	bodies   map[types.Object]body
	types    []*types.Named
	codes    map[string]bool
	nevers   map[place]*never
}

// place is a line of the source.
type place struct {
	file string
	line int
}

// never is a remark at the end of a line, "//never:code code, and why": what is mentioned in this line, and all that it calls, does not
// come to these codes here. It says what no reading of the code shows, such as that a stored amount is never too large. A remark that
// takes nothing away fails, and so does a test that gets such a code after all: the contract does not have it.
type never struct {
	codes map[string]bool // with whether the remark took it away
}

// body is a piece of code with the package that it is in.
type body struct {
	node ast.Node
	info *types.Info
	fset *token.FileSet
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
	src := &source{packages: all, bodies: map[types.Object]body{}, codes: map[string]bool{}, nevers: map[place]*never{}}
	for _, p := range all {
		for _, e := range p.Errors {
			return nil, e
		}
		for _, f := range p.Syntax {
			store := filepath.Base(p.Fset.Position(f.Pos()).Filename) == "store.go"
			src.readNevers(p.Fset, f)
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
			src.bodies[p.TypesInfo.Defs[d.Name]] = body{d.Body, p.TypesInfo, p.Fset, store}
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
					src.bodies[p.TypesInfo.Defs[name]] = body{spec.Values[min(i, len(spec.Values)-1)], p.TypesInfo, p.Fset, store}
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

func (src *source) readNevers(fset *token.FileSet, f *ast.File) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			list, ok := strings.CutPrefix(c.Text, "//never:")
			if !ok {
				continue
			}
			list, _, _ = strings.Cut(list, ",")
			n := &never{map[string]bool{}}
			for _, code := range strings.Fields(list) {
				n.codes[code] = false
			}
			at := fset.Position(c.Pos())
			src.nevers[place{at.Filename, at.Line}] = n
		}
	}
}

// unused names the remarks that took nothing away.
func (src *source) unused() (list []string) {
	for at, n := range src.nevers {
		for code, used := range n.codes {
			if !used {
				list = append(list, fmt.Sprintf("%s:%d: never:%s takes nothing away", at.file, at.line, code))
			}
		}
	}
	slices.Sort(list)
	return list
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
// it may name a code too many, and one too few only where a remark says so.
func (src *source) reach(at body, seen map[types.Object]bool, codes map[string]bool) {
	ast.Inspect(at.node, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		seen, codes := seen, codes
		if p := at.fset.Position(n.Pos()); src.nevers[place{p.Filename, p.Line}] != nil {
			remark, all := src.nevers[place{p.Filename, p.Line}], codes
			seen, codes = maps.Clone(seen), map[string]bool{} // what is seen here only is not yet seen without the remark
			defer func() {
				for code := range codes {
					if _, ok := remark.codes[code]; ok {
						remark.codes[code] = true
					} else {
						all[code] = true
					}
				}
			}()
		}
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
	if o.Pkg().Path() == module+"/internal/apierr" && o.Name() == "NotFoundErr" {
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
				src.reach(body{handler, p.TypesInfo, p.Fset, false}, map[types.Object]bool{}, codes)
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

// codesFile writes internal/httpapi/codes.go.
func codesFile(dir string) ([]byte, error) {
	src, err := load(dir)
	if err != nil {
		return nil, err
	}
	found := src.handlerCodes()
	if unused := src.unused(); len(unused) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(unused, "\n"))
	}
	var b bytes.Buffer
	b.WriteString(`// Code generated by tools/generate; DO NOT EDIT.

package httpapi

// handlerCodes are the codes with which the handler of an operation can refuse, by the operation's name: every code that
// its code, and all that this calls, mentions, less what a remark in the code takes away.
var handlerCodes = map[string]string{
`)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&b, "%q: %q,\n", name, strings.Join(found[name], " "))
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}
