package api

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/api/contracttest"
)

// theContract is what every answer in these tests is held to.
var theContract = sync.OnceValue(func() *contracttest.Contract {
	c, err := contracttest.Open(Document())
	if err != nil {
		panic(err)
	}
	return c
})

// TestMain fails the whole when an operation of the contract was never answered with 200: a test of it is missing.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && wholeRun() {
		for _, unseen := range theContract().Unseen() {
			if strings.HasSuffix(unseen, " 200") {
				fmt.Println("no test in this package gets from operation", unseen)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// wholeRun says whether nothing was left out.
func wholeRun() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}
