package testkit

import (
	"errors"
	"os"
	"path/filepath"
)

// Root returns the directory of the module's go.mod, at or above the working directory.
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
