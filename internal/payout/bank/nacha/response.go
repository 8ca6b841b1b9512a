package nacha

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Response is one returned entry or notification of change.
type Response struct {
	Code      string // R01 to R85, or C01 to C14
	ID        string // ID of the original entry
	Trace     string // trace number of the original entry
	Name      string
	Cents     int64 // 0 in a notification of change
	Debit     bool  // the original entry was a debit
	Info      string
	Corrected string // corrected data of a notification of change, see [Response.Correction]
}

// IsChange reports whether this is a notification of change: the money arrived, and the receiving bank asks for a
// correction before the next entry.
func (a Response) IsChange() bool { return strings.HasPrefix(a.Code, "C") }

// Dishonored reports whether the response is about an earlier return and not about the original entry.
func (a Response) Dishonored() bool { return a.Code >= "R61" && a.Code <= "R77" }

// Returned is the content of a file of returns and notifications of change.
type Returned struct {
	Created   string // date and time as in the file: YYMMDDHHMM
	Responses []Response
}

const maxSize = 64 << 20

// Read parses a file of returns and notifications of change, with or without line ends. It returns an error if the
// counts, hashes or totals do not match the entries.
func Read(in io.Reader) (Returned, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return Returned{}, err
	}
	if len(b) > maxSize {
		return Returned{}, errors.New("nacha: the file is too large")
	}
	r := &reader{}
	if err := r.read(string(b)); err != nil {
		return Returned{}, fmt.Errorf("nacha: record %d: %w", r.at, err)
	}
	return r.found, nil
}

type totals struct{ count, hash, debits, credits int64 }

func (t *totals) add(o totals) {
	t.count, t.hash, t.debits, t.credits = t.count+o.count, t.hash+o.hash, t.debits+o.debits, t.credits+o.credits
}

type reader struct {
	at      int
	found   Returned
	file    totals
	batch   totals
	batches int64
	inBatch bool
	entry   *Response
	ended   bool
}

func (r *reader) read(all string) error {
	all = strings.ReplaceAll(all, "\r", "")
	for len(all) > 0 {
		r.at++
		line, rest, cut := strings.Cut(all, "\n")
		if !cut || len(line) > width {
			n := min(width, len(all))
			line, rest = all[:n], strings.TrimPrefix(all[n:], "\n")
		}
		all = rest
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(line) > width || strings.Trim(line, printable) != "" {
			return errors.New("the record has invalid characters")
		}
		line += strings.Repeat(" ", width-len(line)) // some senders trim trailing blanks
		if err := r.record(line); err != nil {
			return err
		}
	}
	if !r.ended {
		return errors.New("the file ends without its control record")
	}
	return nil
}

var printable = func() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()

func (r *reader) record(l string) error {
	if r.at == 1 != (l[0] == '1') {
		return errors.New("a file must begin with its only header")
	}
	if r.ended {
		if strings.Trim(l, "9") != "" {
			return errors.New("there are records after the file control record")
		}
		return nil
	}
	switch l[0] {
	case '1':
		r.found.Created = l[23:33]
		return nil
	case '5':
		if r.inBatch {
			return errors.New("a batch begins inside another one")
		}
		r.inBatch, r.batch = true, totals{}
		return nil
	case '6':
		return r.detail(l)
	case '7':
		return r.addenda(l)
	case '8':
		if !r.inBatch {
			return errors.New("a batch ends without having begun")
		}
		want, err := numbers(l, [2]int{4, 10}, [2]int{10, 20}, [2]int{20, 32}, [2]int{32, 44})
		if err != nil {
			return err
		}
		if got := (totals{want[0], want[1], want[2], want[3]}); got.count != r.batch.count ||
			got.hash != r.batch.hash%hashModulus || got.debits != r.batch.debits || got.credits != r.batch.credits {
			return fmt.Errorf("the batch control record states %+v, but the batch has %+v", got, r.batch)
		}
		r.inBatch, r.entry = false, nil
		r.file.add(r.batch)
		r.batches++
		return nil
	case '9':
		if r.inBatch {
			return errors.New("the file ends inside a batch")
		}
		want, err := numbers(l, [2]int{1, 7}, [2]int{13, 21}, [2]int{21, 31}, [2]int{31, 43}, [2]int{43, 55})
		if err != nil {
			return err
		}
		if want[0] != r.batches || want[1] != r.file.count || want[2] != r.file.hash%hashModulus ||
			want[3] != r.file.debits || want[4] != r.file.credits {
			return fmt.Errorf("the file control record states %v in %d batches, but the file has %+v", want[1:], want[0], r.file)
		}
		r.ended = true
		return nil
	}
	return fmt.Errorf("unknown record type %q", l[0])
}

func (r *reader) detail(l string) error {
	if !r.inBatch {
		return errors.New("an entry is outside of a batch")
	}
	n, err := numbers(l, [2]int{1, 3}, [2]int{3, 11}, [2]int{29, 39})
	if err != nil {
		return err
	}
	r.batch.count++
	r.batch.hash += n[1]
	debit := n[0]%10 >= 6
	if debit {
		r.batch.debits += n[2]
	} else {
		r.batch.credits += n[2]
	}
	r.entry = &Response{ID: strings.TrimSpace(l[39:54]), Name: strings.TrimSpace(l[54:76]), Cents: n[2], Debit: debit}
	return nil
}

func (r *reader) addenda(l string) error {
	if r.entry == nil {
		return errors.New("an addenda record has no entry")
	}
	r.batch.count++
	kind := l[1:3]
	if kind != "98" && kind != "99" {
		return nil // skip the addenda of the original entry
	}
	if r.entry.Code != "" {
		return errors.New("an entry has two return addenda")
	}
	a := r.entry
	a.Code, a.Trace = l[3:6], strings.TrimSpace(l[6:21])
	number, err := strconv.Atoi(a.Code[1:])
	if first := map[string]byte{"98": 'C', "99": 'R'}[kind]; err != nil || a.Code[0] != first || number < 1 {
		return fmt.Errorf("%q is not a return or change code", a.Code)
	}
	if kind == "98" {
		a.Corrected = strings.TrimRight(l[35:64], " ") // fields have fixed positions: keep leading blanks
	} else {
		a.Info = strings.TrimSpace(l[35:79])
	}
	r.found.Responses = append(r.found.Responses, *a)
	return nil
}

// numbers parses fields of a record that must be digits.
func numbers(l string, at ...[2]int) ([]int64, error) {
	all := make([]int64, len(at))
	for i, p := range at {
		field := l[p[0]:p[1]]
		if strings.Trim(field, "0123456789") != "" {
			return nil, fmt.Errorf("%q is not a number", field)
		}
		all[i], _ = strconv.ParseInt(field, 10, 64)
	}
	return all, nil
}

// WriteResponses returns a file of returns and notifications of change, as a bank would send it to this originator.
// The simulated bank uses it.
func (f File) WriteResponses(responses []Response) ([]byte, error) {
	w := &writer{}
	w.line("101"+padLeft10(f.Destination)+padLeft10(f.ODFI)+f.Created.Format("0601021504")+string(f.Modifier)+"094101",
		padRight(f.Name, 23)+padRight(f.DestinationName, 23)+padRight(f.Reference, 8))
	var all totals
	for i, a := range responses {
		number := zeroPadded(int64(i+1), 7)
		kind, addenda := "PPD", "99"
		detail := padRight(a.Info, 44)
		if a.IsChange() {
			kind, addenda, detail = "COR", "98", fmt.Sprintf("%-29.29s", a.Corrected)+padRight("", 15)
		}
		code, service := "21", "220"
		if a.Debit {
			code, service = "26", "225"
		}
		w.line("5"+service+padRight(f.Name, 16)+padRight("", 20)+padRight(f.ID, 10)+kind+padRight("RETURN",
			10)+f.Created.Format("060102")+f.Created.Format("060102")+"   1"+f.ODFI[:8]+number, "")
		trace := f.ODFI[:8] + zeroPadded(int64(i+1), 7)
		w.line("6"+code+f.ODFI+padRight(f.Account, 17)+zeroPadded(a.Cents, 10)+padRight(a.ID, 15)+padRight(a.Name,
			22)+"  1"+trace, "")
		w.line("7"+addenda+a.Code+padRight(a.Trace, 15)+padRight("", 6)+f.ODFI[:8]+detail+trace, "")
		hash, _ := strconv.ParseInt(f.ODFI[:8], 10, 64)
		t := totals{count: 2, hash: hash, credits: a.Cents}
		if a.Debit {
			t.debits, t.credits = a.Cents, 0
		}
		w.line("8"+service+zeroPadded(2, 6)+zeroPadded(hash, 10)+zeroPadded(t.debits, 12)+zeroPadded(t.credits,
			12)+padRight(f.ID, 10)+padRight("", 25)+f.ODFI[:8]+number, "")
		all.add(t)
	}
	blocks := (w.lines + 1 + 9) / 10
	w.line("9"+zeroPadded(int64(len(responses)), 6)+zeroPadded(int64(blocks), 6)+zeroPadded(all.count,
		8)+zeroPadded(all.hash%hashModulus, 10)+zeroPadded(all.debits, 12)+zeroPadded(all.credits, 12)+padRight("", 39), "")
	for w.lines%10 != 0 {
		w.line(strings.Repeat("9", width), "")
	}
	return w.out.Bytes(), w.err
}
