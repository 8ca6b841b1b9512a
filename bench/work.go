package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// workOf is how long processors have worked for a process; 0 where the system does not say. Unlike a rate it changes
// little with what else the machine does.
func workOf(pid int) time.Duration {
	own, _ := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return own.worked
}

// workOfAll is workOf for a process and its children.
func workOfAll(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	sum := workOf(pid)
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		if s, err := readStat(path); err == nil && s.parent == pid {
			sum += s.worked
		}
	}
	return sum
}

type stat struct {
	parent int
	worked time.Duration
}

// tick is the unit of the system's counts of time.
const tick = 10 * time.Millisecond

func readStat(path string) (s stat, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	// The second field is the name, in parentheses, and may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return s, fmt.Errorf("%s: %d fields", path, len(fields))
	}
	s.parent, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] { // user, system, and both of children that ended
		n, _ := strconv.ParseInt(f, 10, 64)
		s.worked += time.Duration(n) * tick
	}
	return s, nil
}
