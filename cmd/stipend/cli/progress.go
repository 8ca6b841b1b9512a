package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows on a terminal how far a long task is, in one line that is overwritten: a bar, and a text. Elsewhere it
// prints nothing, or a line for each change if the changes are the result of the command.
type progress struct {
	w       io.Writer
	changes bool // print a line for each change if w is no terminal, and keep the last one
	last    string
	drawn   bool
}

// count shows that done of total are done.
func (p *progress) count(done, total int, what string) {
	p.draw(done, max(total, 1), fmt.Sprintf("%d of %d %s", done, total, what))
}

// share shows done of total in percent. If the total is not known, it is 0, and no bar is shown.
func (p *progress) share(done, total int64, what string) {
	if total <= 0 {
		p.draw(0, 0, what)
		return
	}
	percent := int(min(100*done/total, 100))
	p.draw(percent, 100, fmt.Sprintf("%d%% %s", percent, what))
}

// draw shows a text, after a bar unless the total is 0.
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

// end removes the line, or finishes it if it is a result.
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

// reader returns a reader that shows how much of the total bytes was read.
func (p *progress) reader(r io.Reader, total int64, what string) io.Reader {
	return &progressReader{r, p, 0, total, what}
}

type progressReader struct {
	io.Reader
	p           *progress
	done, total int64
	what        string
}

// Read reads, and shows the progress.
func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.done += int64(n)
	r.p.share(r.done, r.total, r.what)
	return n, err
}

// growing calls f, which writes a file of about total bytes, and shows meanwhile how long the file is.
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

// fileSize returns the number of bytes of a regular file, or 0 if it is not known.
func fileSize(name string) int64 {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
