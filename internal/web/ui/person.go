package ui

// Reason says why something was not accepted. What nobody has put into words for people is not theirs to read: who screens must
// not warn.
func (c *Request) Reason(code string) string {
	if key := "kyc.reason." + code; c.HasText(key) {
		return c.Text(key)
	}
	return c.Text("kyc.reason.other")
}
