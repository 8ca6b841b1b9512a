package lightning

import "regexp"

var address = regexp.MustCompile(
	`^[a-z0-9][a-z0-9._+-]{0,63}@([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// IsAddress reports whether text has the form of a Lightning address (LUD-16), in lower case.
func IsAddress(text string) bool { return len(text) <= 254 && address.MatchString(text) }
