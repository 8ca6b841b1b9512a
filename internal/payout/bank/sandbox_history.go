package bank

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// historyDir has the entries of each ACH file that the simulated bank accepted, by file name.
const historyDir = "ach"

// received returns the entries of the ACH files that the simulated bank accepted before the file with a name.
func (s *Sandbox) received(name string) (all []nacha.Received, err error) {
	files, err := os.ReadDir(filepath.Join(s.root, historyDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		if f.Name() == name+".json" || strings.HasPrefix(f.Name(), ".") { // the file itself, when it is read again
			continue
		}
		body, err := os.ReadFile(filepath.Join(s.root, historyDir, f.Name()))
		if err != nil {
			return nil, err
		}
		var some []nacha.Received
		if err := json.Unmarshal(body, &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, err
}

// remember keeps the entries of an accepted ACH file.
func (s *Sandbox) remember(name string, entries []nacha.Received) error {
	dir := filepath.Join(s.root, historyDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	body, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	return writeWhole(dir, name+".json", body)
}

// checkHistory returns an error unless the entries of a file comply with Nacha's rules about earlier entries. A
// reversal must take back one earlier credit of the same company, account (with its bank) and amount, and settle
// within five banking days after it. A payment must not settle before the third banking day after the settlement of a
// prenote to its account.
func checkHistory(earlier, entries []nacha.Received) error {
	credits, reversed := map[string][]time.Time{}, map[string]int{}
	key := func(e nacha.Received) string {
		return fmt.Sprintf("%s %s %s %s %d", e.Company, e.Class, e.Routing, e.Account, e.Cents)
	}
	prenotes := map[string]time.Time{}
	for _, e := range earlier {
		switch {
		case e.Prenote:
			prenotes[e.Routing+" "+e.Account] = waitingTime(e.Effective, time.UTC)
		case e.Description == nacha.Reversal && e.Debit:
			reversed[key(e)]++
		case e.Description != nacha.Reversal && !e.Debit:
			credits[key(e)] = append(credits[key(e)], e.Effective)
		}
	}
	for _, e := range entries {
		if until, waits := prenotes[e.Routing+" "+e.Account]; waits && !e.Debit && !e.Prenote && e.Effective.Before(until) {
			return fmt.Errorf("the entry %s settles before the third banking day after the prenote to its account", e.ID)
		}
		if e.Description != nacha.Reversal || !e.Debit {
			continue
		}
		open := credits[key(e)]
		if reversed[key(e)] >= len(open) {
			return fmt.Errorf("the reversal %s is of no entry of the same company, account and amount", e.ID)
		}
		last := slices.MaxFunc(open, time.Time.Compare) // any of several equal entries may be the reversed one
		for range reversalDays {
			last = FederalReserve.nextBusinessDay(last.AddDate(0, 0, 1))
		}
		if e.Effective.After(last) {
			return fmt.Errorf("the reversal %s settles more than five banking days after the entry", e.ID)
		}
		reversed[key(e)]++
	}
	return nil
}
