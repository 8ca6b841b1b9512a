package testkit

import (
	"errors"
	"os"
	"path/filepath"
)

// Root returns the directory with the module's go.mod: the working directory or one above it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the module: no go.mod above the working directory")
		}
		dir = parent
	}
}
