package signer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stipend/stipend/internal/testkit"
)

// full is a file on a disk that is full for one write. It stores a part of that write.
type full struct {
	*os.File
	writes int
}

func (f *full) Write(text []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return f.File.Write(text)
	}
	n, _ := f.File.Write(text[:len(text)/2])
	return n, errors.New("no space left on device")
}

// After a failed write no entry is appended to the incomplete one, and the next start continues the log.
func TestAFailedWriteDoesNotBreakTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := testkit.Must(OpenLog(path))
	_ = testkit.Must(l.Append(Entry{Kind: kindStart}))
	f, ok := l.file.(*os.File)
	if !ok {
		t.Fatal("the log is no file")
	}
	l.file = &full{File: f}
	for range 2 {
		if _, err := l.Append(Entry{Kind: kindStart}); err == nil {
			t.Error("an entry was appended to an incomplete one")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if e := testkit.Must(l.Append(Entry{Kind: kindStart})); e.Seq != 2 {
		t.Errorf("entry %d follows the first one", e.Seq)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
