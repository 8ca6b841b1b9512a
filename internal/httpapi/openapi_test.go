package httpapi

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/httpapi/openapitest"
	"github.com/stipend/stipend/internal/testkit/apiscript"
)

// theContract returns the contract that every response in these tests is checked against.
var theContract = sync.OnceValue(func() *openapitest.Contract {
	c, err := openapitest.Open(Document())
	if err != nil {
		panic(err)
	}
	return c
})

// TestMain fails the run if the contract declares a response that no test got: the declaration is wrong or a test is
// missing. A response that the contract does not declare fails the test that got it.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && wholeRun() {
		code = checkProvoked()
	}
	os.Exit(code)
}

// The scripts that package app runs get responses, too.
func TestScriptsNameTheirResponses(t *testing.T) {
	n := 0
	apiscript.Responses(t, "../app/testdata/api/*.txt", func(method, path string, status int, code string) {
		n++
		theContract().Expected(method, path, status, code)
	})
	if n < 100 {
		t.Errorf("the scripts have only %d requests", n)
	}
}

func checkProvoked() (code int) {
	for _, answer := range theContract().Unseen() {
		fmt.Println("no test of this package and no script gets what the contract claims:", answer)
		code = 1
	}
	return code
}

// wholeRun reports whether all tests ran.
func wholeRun() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}

// A route declares only the error codes of its handler, once each. The others follow from its declaration.
func TestRoutesDeclareOnlyCodesOfTheirHandlers(t *testing.T) {
	for _, rt := range routes {
		bare := rt
		bare.errors = nil
		reg := newRegistry()
		implied := bare.errorCodes(reg, newInput(reg, rt.handler.in))
		for i, code := range rt.errors {
			if slices.Contains(implied, code) || slices.Contains(rt.errors[:i], code) {
				t.Errorf("%s declares %s, which it has already", rt.name, code)
			}
		}
	}
}
