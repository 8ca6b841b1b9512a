package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows the progress of a long task as a bar and a text, in one line of the terminal that is overwritten. If
// the output is not a terminal, it prints nothing, or a line for each change if the changes are the result of the
// command.
type progress struct {
	w       io.Writer
	changes bool // if w is not a terminal, prints each change as a line; otherwise keeps the last line
	last    string
	drawn   bool
}

// count shows that done of total steps are complete.
func (p *progress) count(done, total int, what string) {
	p.draw(done, max(total, 1), fmt.Sprintf("%d of %d %s", done, total, what))
}

// share shows done as a percentage of total. If total is 0, it is unknown, and no bar is shown.
func (p *progress) share(done, total int64, what string) {
	if total <= 0 {
		p.draw(0, 0, what)
		return
	}
	percent := int(min(100*done/total, 100))
	p.draw(percent, 100, fmt.Sprintf("%d%% %s", percent, what))
}

// draw shows a text, preceded by a bar unless total is 0.
func (p *progress) draw(done, total int, text string) {
	const width = 30
	if text == p.last {
		return
	}
	p.last = text
	if !draws(p.w) {
		if p.changes {
			fmt.Fprintln(p.w, text)
		}
		return
	}
	p.drawn = true
	if total == 0 {
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		return
	}
	filled := width * done / total
	fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %s", strings.Repeat("#", filled), strings.Repeat(".", width-filled), text)
}

// end removes the line, or completes it if it is a result of the command.
func (p *progress) end() {
	switch {
	case !p.drawn:
	case p.changes:
		fmt.Fprintln(p.w)
	default:
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.last, p.drawn = "", false
}

// reader returns a reader that shows how many of the total bytes have been read.
func (p *progress) reader(r io.Reader, total int64, what string) io.Reader {
	return &progressReader{r, p, 0, total, what}
}

type progressReader struct {
	io.Reader
	p           *progress
	done, total int64
	what        string
}

// Read reads from the reader and shows the progress.
func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.done += int64(n)
	r.p.share(r.done, r.total, r.what)
	return n, err
}

// growing calls f, which writes a file of about total bytes, and shows the size of the file in the meantime.
func (p *progress) growing(file string, total int64, what string, f func() error) error {
	p.share(0, total, what)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				p.share(fileSize(file), total, what)
			}
		}
	}()
	err := f()
	close(stop)
	<-stopped
	return err
}

// fileSize returns the size of a regular file in bytes, or 0 if it is unknown.
func fileSize(name string) int64 {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
