// Command passwords creates internal/identity/breached.txt.gz from a list of passwords that were found in data
// breaches. It reads the list, a JSON array of strings, from its standard input:
//
//	npm pack @zxcvbn-ts/language-common && tar xzf zxcvbn-ts-language-common-*.tgz
//	go run ./tools/passwords <package/src/passwords.json >internal/identity/breached.txt.gz
//
// Passwords are stored in lower case. A password that is long enough to be accepted by the service is stored whole;
// of any other password, only the word between the digits and symbols at its ends is stored.
package main

import (
	"compress/gzip"
	"encoding/json"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"
)

func main() {
	var all []string
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		log.Fatal(err)
	}
	kept := map[string]bool{}
	for _, password := range all {
		password = strings.ToLower(password)
		word := strings.TrimFunc(password, func(r rune) bool { return !unicode.IsLetter(r) })
		kept[password] = len(password) >= 12
		kept[word] = kept[word] || len(word) >= 4
	}
	maps.DeleteFunc(kept, func(_ string, keep bool) bool { return !keep })
	z, err := gzip.NewWriterLevel(os.Stdout, gzip.BestCompression)
	if err == nil {
		_, err = z.Write([]byte(strings.Join(slices.Sorted(maps.Keys(kept)), "\n")))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}
