// Command generate writes what is made from the code: the codes of each operation, the contract, and what the clients'
// generators read. `make generate` runs it, and then the generators.
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
		return fmt.Errorf("want one of: codes, contract, client FILE")
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
	case "client":
		if len(args) == 2 {
			return writeClientDocument(args[1])
		}
	}
	return fmt.Errorf("cannot make %q", args)
}
