package nacha

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Answer is one entry that came back.
type Answer struct {
	Code      string // R01 to R85, or C01 to C14
	ID        string // the entry's own name, as it was sent
	Trace     string // the entry's trace number, as it was sent
	Name      string
	Cents     int64 // 0 of a notification of change
	Debit     bool  // what came back was a debit of ours
	Info      string
	Corrected string // what a notification of change says instead, see [Answer.Correction]
}

// Change says whether it is a notification of change: the money arrived, and something should be put right before the next time.
func (a Answer) Change() bool { return strings.HasPrefix(a.Code, "C") }

// Contested says whether it is about an earlier return rather than about our entry. No return of ours was ever dishonored.
func (a Answer) Contested() bool { return a.Code >= "R61" && a.Code <= "R77" }

// Returned is what a file of returns and notifications of change says.
type Returned struct {
	Created string // as the file has it: date and time, YYMMDDHHMM
	Answers []Answer
}

const maxSize = 64 << 20

// Read reads a file of returns and notifications of change, with line ends or without. Its counts, hashes and sums must
// agree with its entries.
func Read(in io.Reader) (Returned, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return Returned{}, err
	}
	if len(b) > maxSize {
		return Returned{}, errors.New("nacha: the file is larger than any that a bank sends")
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
	entry   *Answer
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
			return errors.New("it has other characters than a record")
		}
		line += strings.Repeat(" ", width-len(line)) // some senders cut what is blank
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
		return errors.New("the file begins with its header, and has one")
	}
	if r.ended {
		if strings.Trim(l, "9") != "" {
			return errors.New("something stands behind the end of the file")
		}
		return nil
	}
	switch l[0] {
	case '1':
		r.found.Created = l[23:33]
		return nil
	case '5':
		if r.inBatch {
			return errors.New("a batch begins within another")
		}
		r.inBatch, r.batch = true, totals{}
		return nil
	case '6':
		return r.detail(l)
	case '7':
		return r.addenda(l)
	case '8':
		if !r.inBatch {
			return errors.New("a batch ends that has not begun")
		}
		want, err := numbers(l, [2]int{4, 10}, [2]int{10, 20}, [2]int{20, 32}, [2]int{32, 44})
		if err != nil {
			return err
		}
		if got := (totals{want[0], want[1], want[2], want[3]}); got.count != r.batch.count || got.hash != r.batch.hash%hashModulus || got.debits != r.batch.debits || got.credits != r.batch.credits {
			return fmt.Errorf("the batch says %+v and has %+v", got, r.batch)
		}
		r.inBatch, r.entry = false, nil
		r.file.add(r.batch)
		r.batches++
		return nil
	case '9':
		if r.inBatch {
			return errors.New("the file ends within a batch")
		}
		want, err := numbers(l, [2]int{1, 7}, [2]int{13, 21}, [2]int{21, 31}, [2]int{31, 43}, [2]int{43, 55})
		if err != nil {
			return err
		}
		if want[0] != r.batches || want[1] != r.file.count || want[2] != r.file.hash%hashModulus || want[3] != r.file.debits || want[4] != r.file.credits {
			return fmt.Errorf("the file says %v of %d batches and has %+v", want[1:], want[0], r.file)
		}
		r.ended = true
		return nil
	}
	return fmt.Errorf("there is no record type %q", l[0])
}

func (r *reader) detail(l string) error {
	if !r.inBatch {
		return errors.New("an entry stands outside of a batch")
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
	r.entry = &Answer{ID: strings.TrimSpace(l[39:54]), Name: strings.TrimSpace(l[54:76]), Cents: n[2], Debit: debit}
	return nil
}

func (r *reader) addenda(l string) error {
	if r.entry == nil {
		return errors.New("an addenda record belongs to no entry")
	}
	r.batch.count++
	kind := l[1:3]
	if kind != "98" && kind != "99" {
		return nil // of the original entry; says nothing of its return
	}
	if r.entry.Code != "" {
		return errors.New("an entry came back twice")
	}
	a := r.entry
	a.Code, a.Trace = l[3:6], strings.TrimSpace(l[6:21])
	number, err := strconv.Atoi(a.Code[1:])
	if first := map[string]byte{"98": 'C', "99": 'R'}[kind]; err != nil || a.Code[0] != first || number < 1 {
		return fmt.Errorf("%q is no reason", a.Code)
	}
	if kind == "98" {
		a.Corrected = strings.TrimRight(l[35:64], " ") // what stands where says what it is
	} else {
		a.Info = strings.TrimSpace(l[35:79])
	}
	r.found.Answers = append(r.found.Answers, *a)
	return nil
}

// numbers reads fields of a record that must be digits.
func numbers(l string, at ...[2]int) ([]int64, error) {
	all := make([]int64, len(at))
	for i, p := range at {
		field := l[p[0]:p[1]]
		if strings.Trim(field, "0123456789") != "" {
			return nil, fmt.Errorf("%q is no number", field)
		}
		all[i], _ = strconv.ParseInt(field, 10, 64)
	}
	return all, nil
}

// WriteAnswers makes a file of returns and notifications of change as a bank does, of entries that were sent with this
// originator. The sandbox's bank answers with it.
func (f File) WriteAnswers(answers []Answer) ([]byte, error) {
	w := &writer{}
	w.line("101"+ten(f.Destination)+ten(f.ODFI)+f.Created.Format("060102")+f.Created.Format("1504")+string(f.Modifier)+"094101",
		left(f.Name, 23)+left(f.DestinationFor, 23)+left(f.Reference, 8))
	var all totals
	for i, a := range answers {
		number := zeros(int64(i+1), 7)
		kind, addenda := "PPD", "99"
		detail := left(a.Info, 44)
		if a.Change() {
			kind, addenda, detail = "COR", "98", fmt.Sprintf("%-29.29s", a.Corrected)+left("", 15)
		}
		code, service := "21", "220"
		if a.Debit {
			code, service = "26", "225"
		}
		w.line("5"+service+left(f.Name, 16)+left("", 20)+left(f.ID, 10)+kind+left("RETURN", 10)+f.Effective.Format("060102")+f.Effective.Format("060102")+"   1"+f.ODFI[:8]+number, "")
		trace := f.ODFI[:8] + zeros(int64(i+1), 7)
		w.line("6"+code+f.ODFI+left(f.Account, 17)+zeros(a.Cents, 10)+left(a.ID, 15)+left(a.Name, 22)+"  1"+trace, "")
		w.line("7"+addenda+a.Code+left(a.Trace, 15)+left("", 6)+f.ODFI[:8]+detail+trace, "")
		hash, _ := strconv.ParseInt(f.ODFI[:8], 10, 64)
		t := totals{count: 2, hash: hash, credits: a.Cents}
		if a.Debit {
			t.debits, t.credits = a.Cents, 0
		}
		w.line("8"+service+zeros(2, 6)+zeros(hash, 10)+zeros(t.debits, 12)+zeros(t.credits, 12)+left(f.ID, 10)+left("", 25)+f.ODFI[:8]+number, "")
		all.add(t)
	}
	blocks := (w.lines + 1 + 9) / 10
	w.line("9"+zeros(int64(len(answers)), 6)+zeros(int64(blocks), 6)+zeros(all.count, 8)+zeros(all.hash%hashModulus, 10)+zeros(all.debits, 12)+zeros(all.credits, 12)+left("", 39), "")
	for w.lines%10 != 0 {
		w.line(strings.Repeat("9", width), "")
	}
	return w.out.Bytes(), w.err
}
