package mail

// RequireTLS makes a server on this machine require TLS like any other.
func (s *SMTP) RequireTLS() { s.local = false }

// NeedsTLS reports whether the server requires TLS.
func (s *SMTP) NeedsTLS() bool { return !s.local }
