package chain

import "net/url"

// WitnessName returns the name of the witness at a URL: its host, which has no credentials and may be logged.
func WitnessName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
