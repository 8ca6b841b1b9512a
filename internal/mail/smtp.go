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

// sendTimeout bounds each step of a talk with the server.
const sendTimeout = 15 * time.Second

// SMTP is the server that mails are handed to.
type SMTP struct {
	// TLS is for servers with a certificate of one's own authority; nil trusts the system's.
	TLS *tls.Config

	host           string
	port           int
	user, password string
	implicit       bool // TLS from the first byte
	bare           bool // may go without TLS: the server is on this machine
}

// ParseSMTP reads smtp://user:password@host:587, which must upgrade to TLS by STARTTLS unless the host is this very
// machine, or smtps://user:password@host:465, which is TLS from the start. The port may be left out. Errors never
// repeat the text: it holds a password.
func ParseSMTP(text string) (*SMTP, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want smtp://user:password@host:587 or smtps://user:password@host:465")
	}
	s := &SMTP{host: u.Hostname(), user: u.User.Username()}
	s.password, _ = u.User.Password()
	switch u.Scheme {
	case "smtp":
		s.port, s.bare = 587, loopback(s.host)
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

// refusal is the server's last word on a mail: trying again would change nothing. It holds no word of the server's,
// which like to repeat the address.
type refusal struct {
	step string
	code int
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %d", r.step, r.code) }

func (s *SMTP) send(ctx context.Context, msg *gomail.Msg) error {
	options := []gomail.Option{gomail.WithPort(s.port), gomail.WithTimeout(sendTimeout), gomail.WithHELO("localhost")}
	auth := gomail.SMTPAuthAutoDiscover
	switch {
	case s.implicit:
		options = append(options, gomail.WithSSL())
	case s.bare:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
		auth = gomail.SMTPAuthPlainNoEnc // a password on the loopback interface does not leave the machine
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
		return nil // what went wrong after the server took it is no reason to send it again
	}
	var failed *gomail.SendError
	if !errors.As(err, &failed) {
		return fmt.Errorf("mail: %s: %w", net.JoinHostPort(s.host, strconv.Itoa(s.port)), err)
	}
	code := failed.ErrorCode()
	if code >= 500 && code < 600 {
		// The recipient or the content; a refused sender is the configuration's fault, and waits until that is mended.
		switch failed.Reason {
		case gomail.ErrSMTPRcptTo:
			return &refusal{"recipient refused", code}
		case gomail.ErrSMTPData, gomail.ErrSMTPDataClose:
			return &refusal{"content refused", code}
		}
	}
	return fmt.Errorf("mail: %s: step %d of sending: the server answered %d %s",
		net.JoinHostPort(s.host, strconv.Itoa(s.port)), failed.Reason, code, failed.EnhancedStatusCode())
}
