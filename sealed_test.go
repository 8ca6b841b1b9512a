package stipend_test

import (
	"cmp"
	"go/ast"
	"strconv"
	"testing"

	"github.com/stipend/stipend/internal/datakey"
)

// notRotated are the columns of seal contexts whose values are not encrypted with the data key, or not stored.
var notRotated = map[string]string{
	"document_chunks.sealed":  "encrypted with the key of the subject",
	"tax_ids.sealed":          "encrypted with the key of the subject",
	"tax_forms.sealed":        "encrypted with the key of the subject",
	"company_profiles.sealed": "encrypted with the key of the subject",
	"owners.sealed":           "encrypted with the key of the subject",
	"distributions.draft":     "in a field of a form, which is sent back within minutes",
}

// A value is encrypted for a seal context, so a new encrypted column needs a new context, and with it an entry in
// datakey.Columns: otherwise the rotation of the data key would leave it behind.
func TestEncryptedColumnsAreRotated(t *testing.T) {
	rotated, found, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range datakey.Columns {
		rotated[cmp.Or(c.As, c.Table+"."+c.Name)] = true
	}
	eachCode(t, func(f file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			switch name := lit.Type.(type) {
			case *ast.Ident:
				ok = name.Name == "SealContext"
			case *ast.SelectorExpr:
				ok = name.Sel.Name == "SealContext"
			default:
				ok = false
			}
			if !ok || allowed(f.name, map[string]string{"internal/datakey": "re-encrypts"}, map[string]bool{}) {
				return true
			}
			var texts []string
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Value
				}
				if text, ok := e.(*ast.BasicLit); ok {
					s, _ := strconv.Unquote(text.Value)
					texts = append(texts, s)
				}
			}
			if len(texts) < 2 {
				t.Errorf("%s: name the table and the column of a seal context by string literals", f.at(lit))
				return true
			}
			name := texts[0] + "." + texts[1]
			found[name] = true
			if notRotated[name] != "" {
				used[name] = true
			} else if !rotated[name] {
				t.Errorf("%s: add %s to internal/datakey/columns.go, so that a rotation of the data key encrypts it again",
					f.at(lit), name)
			}
			return true
		})
	})
	for name := range rotated {
		if !found[name] {
			t.Errorf("nothing is encrypted for %s, which internal/datakey/columns.go names", name)
		}
	}
	unused(t, "notRotated", notRotated, used)
}
