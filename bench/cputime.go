package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuOf returns the processor time that a process has used, or 0 if the system does not report it. It depends less on
// other work of the machine than elapsed time does.
func cpuOf(pid int) time.Duration {
	own, _ := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return own.worked
}

// cpuOfTree returns the processor time of a process and its children.
func cpuOfTree(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	sum := cpuOf(pid)
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

// tick is the unit of the processor times in /proc.
const tick = 10 * time.Millisecond

func readStat(path string) (s stat, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	// The second field is the program's name in parentheses, which may contain any character.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return s, fmt.Errorf("%s: %d fields", path, len(fields))
	}
	s.parent, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] { // user and system time of the process and of its ended children
		n, _ := strconv.ParseInt(f, 10, 64)
		s.worked += time.Duration(n) * tick
	}
	return s, nil
}
