package company

import "testing"

func TestBrowserOf(t *testing.T) {
	for agent, want := range map[string]string{
		"": "",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 " +
			"Safari/537.36 Edg/142.0.0.0": "Edge, Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
			"Version/18.6 Mobile/15E148 Safari/604.1": "Safari, iPhone",
		"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0": "Firefox, Linux",
		"curl/8.15.0":          "curl",
		"Go-http-client/1.1":   "Go-http-client/1.1",
		"Custom/1.0 (+mailto)": "Custom/1.0",
	} {
		if got := browserOf(agent); got != want {
			t.Errorf("%q: got %q, want %q", agent, got, want)
		}
	}
}
