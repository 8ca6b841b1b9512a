package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	"rsc.io/qr"
)

// Terminal prints the demo's output. In an interactive terminal, the last line is a status line that is overwritten.
// Other outputs, such as files, only get a line for each change.
type Terminal struct {
	out   io.Writer
	live  bool
	shown string // current text of the status line
	began time.Time
}

// NewTerminal returns a Terminal that writes to out.
func NewTerminal(out io.Writer) *Terminal {
	t := &Terminal{out: out}
	if f, ok := out.(*os.File); ok {
		t.live = term.IsTerminal(int(f.Fd()))
	}
	return t
}

func (t *Terminal) print(format string, args ...any) {
	t.clear()
	fmt.Fprintf(t.out, format, args...)
}

// Step prints a heading.
func (t *Terminal) Step(format string, args ...any) {
	title := fmt.Sprintf(format, args...)
	if t.live {
		t.print("\n\x1b[1m%s\x1b[0m\n", title)
		return
	}
	t.print("\n%s\n%s\n", title, strings.Repeat("─", len([]rune(title))))
}

// Note prints a line.
func (t *Terminal) Note(format string, args ...any) { t.print(format+"\n", args...) }

// event prints a line about an event, with the seconds since the first event.
func (t *Terminal) event(kind, format string, args ...any) {
	if t.began.IsZero() {
		t.began = time.Now()
	}
	t.print("%6.1fs  %-8s %s\n", time.Since(t.began).Seconds(), kind, fmt.Sprintf(format, args...))
}

func (t *Terminal) table(head string, rows [][]string) {
	t.clear()
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, head)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
}

func (t *Terminal) status(format string, args ...any) {
	if !t.live {
		return
	}
	if line := fmt.Sprintf(format, args...); line != t.shown {
		t.shown = line
		fmt.Fprintf(t.out, "\r\x1b[K\x1b[2m%s\x1b[0m", line)
	}
}

func (t *Terminal) clear() {
	if t.shown != "" {
		t.shown = ""
		fmt.Fprint(t.out, "\r\x1b[K")
	}
}

// qr prints a QR code, with two modules per character. It draws the light modules, because most terminals are dark.
// In an interactive terminal it also sets the colors, so that phones can scan the code on a light background.
func (t *Terminal) qr(text string) error {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return err
	}
	const quiet = 2
	t.clear()
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		b.WriteString("  ")
		if t.live {
			b.WriteString("\x1b[97;40m")
		}
		for x := -quiet; x < code.Size+quiet; x++ {
			top, bottom := !code.Black(x, y), !code.Black(x, y+1)
			switch {
			case top && bottom:
				b.WriteRune('█')
			case top:
				b.WriteRune('▀')
			case bottom:
				b.WriteRune('▄')
			default:
				b.WriteRune(' ')
			}
		}
		if t.live {
			b.WriteString("\x1b[0m")
		}
		b.WriteByte('\n')
	}
	_, err = io.WriteString(t.out, b.String())
	return err
}
