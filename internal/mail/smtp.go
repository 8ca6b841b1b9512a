package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// sendTimeout is the timeout of each SMTP command.
const sendTimeout = 15 * time.Second

// SMTP is a server that accepts mails for delivery.
type SMTP struct {
	// TLS is the configuration for a server whose certificate is from a private authority. Nil trusts the system's
	// authorities.
	TLS *tls.Config

	host           string
	port           int
	user, password string
	implicit       bool // the connection starts with TLS
	local          bool // the server is on this machine, so TLS is optional
}

// ParseSMTP parses smtp://user:password@host:587, which requires STARTTLS unless the host is this machine, or
// smtps://user:password@host:465, which uses TLS from the start. The port is optional. Errors never contain the text,
// because it contains a password.
func ParseSMTP(text string) (*SMTP, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want smtp://user:password@host:587 or smtps://user:password@host:465")
	}
	s := &SMTP{host: u.Hostname(), user: u.User.Username()}
	s.password, _ = u.User.Password()
	switch u.Scheme {
	case "smtp":
		s.port, s.local = 587, loopback(s.host)
	case "smtps":
		s.port, s.implicit = 465, true
	default:
		return nil, errors.New("want smtp:// or smtps://")
	}
	if p := u.Port(); p != "" {
		if s.port, err = strconv.Atoi(p); err != nil || s.port < 1 || s.port > 65535 {
			return nil, errors.New("the port is a number from 1 to 65535")
		}
	}
	return s, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// rejection is a permanent error of the server, after which retrying is useless. It omits the server's text, which
// may contain the recipient's address.
type rejection struct {
	step string
	code int
}

func (r *rejection) Error() string { return fmt.Sprintf("%s: %d", r.step, r.code) }

func (s *SMTP) send(ctx context.Context, msg *gomail.Msg) error {
	options := []gomail.Option{gomail.WithPort(s.port), gomail.WithTimeout(sendTimeout), gomail.WithHELO("localhost")}
	auth := gomail.SMTPAuthAutoDiscover
	switch {
	case s.implicit:
		options = append(options, gomail.WithSSL())
	case s.local:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
		auth = gomail.SMTPAuthPlainNoEnc // permitted without TLS, because the password does not leave this machine
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if s.TLS != nil {
		config := s.TLS.Clone()
		config.ServerName, config.MinVersion = s.host, tls.VersionTLS12
		options = append(options, gomail.WithTLSConfig(config))
	}
	if s.user != "" {
		options = append(options, gomail.WithSMTPAuth(auth), gomail.WithUsername(s.user), gomail.WithPassword(s.password))
	}
	client, err := gomail.NewClient(s.host, options...)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	err = client.DialAndSendWithContext(ctx, msg)
	if err == nil || msg.IsDelivered() {
		return nil // the server has accepted the mail, so a later error must not cause a retry
	}
	var failed *gomail.SendError
	if !errors.As(err, &failed) {
		return fmt.Errorf("mail: %s: %w", net.JoinHostPort(s.host, strconv.Itoa(s.port)), err)
	}
	code := failed.ErrorCode()
	if code >= 500 && code < 600 {
		// Only rejections of the recipient or the content are permanent. A rejected sender is a configuration error, so
		// sending is retried until the configuration is corrected.
		switch failed.Reason {
		case gomail.ErrSMTPRcptTo:
			return &rejection{"recipient refused", code}
		case gomail.ErrSMTPData, gomail.ErrSMTPDataClose:
			return &rejection{"content refused", code}
		}
	}
	return fmt.Errorf("mail: %s: step %d of sending: the server answered %d %s",
		net.JoinHostPort(s.host, strconv.Itoa(s.port)), failed.Reason, code, failed.EnhancedStatusCode())
}
