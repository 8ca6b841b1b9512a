package bank

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/railtest"
)

func TestFolder(t *testing.T) {
	railtest.Run(t, func(t *testing.T) railtest.Outside {
		f, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		return railtest.Outside{
			Rail: f,
			Order: func() rail.Order {
				n++
				return rail.Order{Reference: fmt.Sprintf("bfl_%d", n), Body: fmt.Appendf(nil, "<Document>%d</Document>", n)}
			},
			Refused: rail.Order{Reference: "../escape", Body: []byte("x")},
			Executed: func(reference string) int {
				files, _ := filepath.Glob(filepath.Join(f.dir, "*", filepath.Base(reference)+".xml"))
				return len(files)
			},
			Set: func(l railtest.Line) {
				f.link = map[railtest.Line]func(string, string) error{
					railtest.Fine:       os.Link,
					railtest.LostBefore: func(string, string) error { return errors.New("share gone") },
					railtest.LostAfter: func(from, to string) error {
						return errors.Join(os.Link(from, to), errors.New("share gone"))
					},
				}[l]
			},
		}
	})
}

func TestAFileThatWasTakenIsNotWrittenAgain(t *testing.T) {
	f, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := rail.Order{Reference: "bfl_1", Body: []byte("a")}
	f.Submit(t.Context(), o)
	if err := os.Rename(f.path("out", "bfl_1"), f.path("taken", "bfl_1")); err != nil {
		t.Fatal(err)
	}
	if got := f.Submit(t.Context(), o); got.Outcome != rail.Accepted {
		t.Fatalf("%+v", got)
	}
	if _, err := os.Stat(f.path("out", "bfl_1")); err == nil {
		t.Fatal("the bank would pay it twice")
	}
	if got := f.Submit(t.Context(), rail.Order{Reference: "bfl_1", Body: []byte("b")}); got.Outcome != rail.Refused {
		t.Fatalf("a reference was used for two orders: %+v", got)
	}
}
