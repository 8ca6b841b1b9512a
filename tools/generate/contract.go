package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stipend/stipend/internal/httpapi"
)

// contractFile is the committed copy of the contract, including the operations of the sandbox.
const contractFile = "api/openapi.json"

func writeContract() error {
	var b bytes.Buffer
	if err := json.Indent(&b, httpapi.Document(), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	return os.WriteFile(filepath.FromSlash(contractFile), b.Bytes(), 0o644) //nolint:gosec // a file of the repository
}
