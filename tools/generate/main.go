// Command generate writes the files that are made from the code: the error codes of each operation, the contract and the
// Go SDK. `make generate` runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run makes what the argument names. The contract is made by a program that was built after the codes, so each is a step
// of its own.
func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want one of: codes, contract, sdk")
	}
	switch args[0] {
	case "codes":
		text, err := codesFile(".")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.FromSlash("internal/httpapi/codes.go"), text, 0o644) //nolint:gosec // a file of the repository
	case "contract":
		return writeContract()
	case "sdk":
		return writeSDK()
	}
	return fmt.Errorf("cannot make %q", args)
}
