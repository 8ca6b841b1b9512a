package mail

// RequireTLS makes a server on this machine need TLS like any other.
func (s *SMTP) RequireTLS() { s.bare = false }

// NeedsTLS says whether nothing is told to the server without TLS.
func (s *SMTP) NeedsTLS() bool { return !s.bare }
