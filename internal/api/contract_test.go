package api

import (
	"flag"
	"fmt"
	"os"
	"slices"
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

// unprovoked lists the answers of the contract that no test of this package gets, one a line: "operation status code". Those that can
// happen are provoked by the tests of other packages. The list may only become shorter.
const unprovoked = "testdata/unprovoked.txt"

// TestMain fails the whole when the contract claims an answer that no test got, other than those listed: the claim is wrong or
// a test of it is missing. What was answered and is not in the contract fails the test that got it.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && wholeRun() {
		code = checkProvoked()
	}
	os.Exit(code)
}

func checkProvoked() (code int) {
	text, err := os.ReadFile(unprovoked)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	listed, unseen := strings.Split(strings.TrimSpace(string(text)), "\n"), theContract().Unseen()
	for _, answer := range unseen {
		if !slices.Contains(listed, answer) {
			fmt.Println("no test in this package gets what the contract claims:", answer)
			code = 1
		}
	}
	for _, answer := range listed {
		if !slices.Contains(unseen, answer) {
			fmt.Println(unprovoked, "has a line too many:", answer)
		}
	}
	return code
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
