// Command generate writes the generated files: the contract, the Postman collection of its operations, and the SDKs.
// `make generate` runs it.
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

// run writes the files that the argument selects.
func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("missing argument: contract or sdk")
	}
	switch args[0] {
	case "contract":
		if err := writeContract(); err != nil {
			return err
		}
		return writePostman()
	case "sdk":
		return writeSDKs()
	}
	return fmt.Errorf("unknown arguments %q: want contract or sdk", args)
}
