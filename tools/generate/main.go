// Command generate writes the files that are made from the code: the contract and the Go SDK. `make generate` runs it.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes the file that the argument names.
func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want one of: contract, sdk")
	}
	switch args[0] {
	case "contract":
		return writeContract()
	case "sdk":
		return writeSDK()
	}
	return fmt.Errorf("cannot make %q", args)
}
