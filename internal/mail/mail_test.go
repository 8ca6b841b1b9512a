package mail_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/testkit"
)

const base = "https://pay.example.com"

// smtpServer is an SMTP server on the loopback interface.
type smtpServer struct {
	addr string

	mu    sync.Mutex
	mails []delivered
	fail  func(to string) error // returns the server's response to the command RCPT
	user  string                // user name of the most recent authentication
}

type delivered struct {
	from string
	to   []string
	raw  []byte
}

// startServer starts a server for the duration of a test. With a certificate it offers STARTTLS and requires it for
// passwords.
func startServer(t *testing.T, cert *tls.Config) *smtpServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	p := &smtpServer{addr: l.Addr().String()}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{server: p}, nil }))
	s.Domain, s.AllowInsecureAuth, s.TLSConfig = "localhost", cert == nil, cert
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return p
}

func (p *smtpServer) all() []delivered {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]delivered(nil), p.mails...)
}

type session struct {
	server *smtpServer
	now    delivered
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != "pass word" {
			return smtp.ErrAuthFailed
		}
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.now = delivered{from: from}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.fail != nil {
		if err := s.server.fail(to); err != nil {
			return err
		}
	}
	s.now.to = append(s.now.to, to)
	return nil
}

func (s *session) Data(r io.Reader) (err error) {
	if s.now.raw, err = io.ReadAll(r); err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, s.now)
	return nil
}

func (s *session) Reset()        { s.now = delivered{} }
func (s *session) Logout() error { return nil }

// parts is a parsed mail.
type parts struct {
	header     netmail.Header
	subject    string
	text, html string
}

func parse(t *testing.T, raw []byte) parts {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	p := parts{header: m.Header}
	if p.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("content type %q, %v", kind, err)
	}
	r := multipart.NewReader(m.Body, params["boundary"])
	for i, want := range []string{"text/plain", "text/html"} {
		part, err := r.NextRawPart()
		testkit.Check(t, err)
		kind, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if kind != want || !strings.EqualFold(params["charset"], "utf-8") ||
			part.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
			t.Errorf("part %d is %v", i, part.Header)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		testkit.Check(t, err)
		if i == 0 {
			p.text = strings.ReplaceAll(string(body), "\r\n", "\n")
		} else {
			p.html = string(body)
		}
	}
	if _, err := r.NextRawPart(); !errors.Is(err, io.EOF) {
		t.Errorf("a third part, %v", err)
	}
	return p
}

// sealer returns a sealer with a fixed key.
func sealer() *identity.Sealer {
	s, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return s
}

// mailer returns a mailer for a server, or one that stores mails if url is empty. All companies are verified.
func mailer(t *testing.T, url string) *mail.Mailer {
	t.Helper()
	x := &mail.Mailer{From: &netmail.Address{Name: "Stipend", Address: "payments@example.com"}, BaseURL: base,
		Sealer: sealer(), Verified: func(context.Context, *db.Tx, string) (bool, error) { return true, nil }}
	if url != "" {
		var err error
		if x.Server, err = mail.ParseSMTP(url); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func enqueue(t *testing.T, d *db.DB, messages ...mail.Message) error {
	t.Helper()
	return d.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		for _, m := range messages {
			if err := mail.Enqueue(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

func drain(d *db.DB, x *mail.Mailer) error {
	return job.NewRunner(d, job.Table{mail.JobSend: {Net: x.Send}}, nil, slog.New(slog.DiscardHandler)).Drain(
		context.Background())
}

func waiting(t *testing.T, d *db.DB) (due, parked int64) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
		due, parked, err = job.Count(ctx, tx)
		return err
	})
	return due, parked
}

// stored returns the state, reason and contents of the only mail in the table.
func stored(t *testing.T, d *db.DB) string {
	t.Helper()
	var all string
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT state || '|' || reason || '|' || data || subject || body_text || body_html FROM "+
			"mails").Scan(&all)
	})
	return all
}

var expires = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func invitation() mail.Message {
	return mail.Message{
		CompanyID: "com_1", To: "ada@example.com", Template: mail.Invitation, Key: "ivt_1/1",
		Data: mail.InvitationData{Company: "Acme & Söhne <GmbH>", Role: "contractor", Token: "s3cr3t-token",
			Expires: expires}, Sealer: sealer(),
	}
}

func TestAMailIsSentOnceAsTextAndHTMLAndItsTokenIsDeleted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://stipend:pass%20word@"+server.addr)
		if err := enqueue(t, d, invitation(), invitation()); err != nil { // the same mail twice in one transaction
			t.Fatal(err)
		}
		if all := stored(t, d); !strings.HasPrefix(all, "queued||v1.") || strings.Contains(all, "s3cr3t") {
			t.Errorf("the row of the queued mail is %q", all)
		}
		testkit.Check(t, drain(d, x))
		if err := enqueue(t, d, invitation()); err != nil { // the same mail again after it was sent
			t.Fatal(err)
		}
		testkit.Check(t, drain(d, x))
		mails := server.all()
		if len(mails) != 1 {
			t.Fatalf("%d mails were sent, want 1", len(mails))
		}
		if server.user != "stipend" || mails[0].from != "payments@example.com" ||
			strings.Join(mails[0].to, ",") != "ada@example.com" {
			t.Errorf("signed in as %q, from %q to %q", server.user, mails[0].from, mails[0].to)
		}
		got := parse(t, mails[0].raw)
		if want := "Acme & Söhne <GmbH> invites you to get paid through Stipend"; got.subject != want {
			t.Errorf("subject %q, want %q", got.subject, want)
		}
		link := base + "/invitation/s3cr3t-token"
		for _, want := range []string{"Hello,\n", "Acme & Söhne <GmbH> wants to pay you", "Valid until: 2030-01-02 03:04 UTC",
			link} {
			if !strings.Contains(got.text, want) {
				t.Errorf("the text lacks %q:\n%s", want, got.text)
			}
		}
		for _, want := range []string{`<html lang="en">`, "Acme &amp; Söhne &lt;GmbH&gt; wants to pay you", `href="` + link +
			`"`} {
			if !strings.Contains(got.html, want) {
				t.Errorf("the HTML lacks %q:\n%s", want, got.html)
			}
		}
		if strings.Contains(got.html, "<GmbH>") || strings.Contains(got.html, "<img") ||
			strings.Contains(got.html, "<script") {
			t.Errorf("the HTML is not escaped, or loads resources:\n%s", got.html)
		}
		if from, err := got.header.AddressList("From"); err != nil || from[0].Name != "Stipend" ||
			got.header.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("header %v, %v", got.header, err)
		}
		if all := stored(t, d); !strings.HasPrefix(all, "sent||") || strings.Contains(all, "s3cr3t") ||
			strings.Contains(all, "Acme") {
			t.Errorf("the row of the sent mail is %q", all)
		}
	})
}

// Addresses are compared without case, in every script and normal form, by both databases.
func TestErasedAddressesAreComparedWithoutCase(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		m := invitation()
		m.To = "ZOË@example.com"
		testkit.Check(t, enqueue(t, d, m))
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return mail.Erase(ctx, tx, "zoe\u0308@example.com")
		})
		if all := stored(t, d); all != "refused|erased|" {
			t.Errorf("the row of the erased mail is %q", all)
		}
	})
}

// A crash after the server accepted the mail leaves the row queued, so the job runs again.
func TestAMailThatIsSentAgainHasTheSameMessageID(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://"+server.addr)
		for range 2 {
			testkit.Check(t, enqueue(t, d, invitation()))
			var id string
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				if err := tx.QueryRow(ctx, "SELECT mail_id FROM mails").Scan(&id); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `UPDATE mails SET state = 'queued', data = '{"Company":"Acme","Token":"t"}'`)
				return err
			})
			testkit.Check(t, x.Send(context.Background(), d, job.Job{CompanyID: "com_1", Kind: mail.JobSend,
				Payload: []byte(`{"mail_id":"` + id + `"}`)}))
		}
		mails := server.all()
		if len(mails) != 2 {
			t.Fatalf("%d mails", len(mails))
		}
		first, second := parse(t, mails[0].raw).header, parse(t, mails[1].raw).header
		if id := first.Get("Message-ID"); id == "" || id != second.Get("Message-ID") ||
			!strings.HasSuffix(id, "@example.com>") || first.Get("Date") != second.Get("Date") {
			t.Errorf("the two mails have the Message-ID %q of %s and %q of %s", id, first.Get("Date"), second.Get("Message-ID"),
				second.Get("Date"))
		}
	})
}

func TestTemporaryErrorsAreRetriedAndPermanentOnesAreNot(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://"+server.addr)
		answers := []error{
			&smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "ada@example.com: try later"},
			&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "ada@example.com is unknown"},
		}
		server.fail = func(string) error {
			err := answers[0]
			answers = answers[1:]
			return err
		}
		testkit.Check(t, enqueue(t, d, invitation()))
		err := drain(d, x)
		if err == nil || strings.Contains(err.Error(), "ada@") || !strings.Contains(err.Error(), "451") {
			t.Errorf("a temporary error: %v; want its code, but not the address", err)
		}
		if due, _ := waiting(t, d); due != 1 || len(answers) != 1 {
			t.Errorf("%d jobs wait after %d responses", due, 2-len(answers))
		}
		clock.Advance(time.Minute)
		if err := drain(d, x); err != nil {
			t.Errorf("a permanent rejection fails the job: %v", err)
		}
		if due, parked := waiting(t, d); due != 0 || parked != 0 {
			t.Errorf("%d due, %d parked", due, parked)
		}
		if all := stored(t, d); all != "refused|recipient refused: 550|" {
			t.Errorf("the row is %q", all)
		}
	})
}

func TestMailsAreStoredWithoutAServer(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := mailer(t, "")
		x.Sandbox = true
		other := invitation()
		other.CompanyID = "com_2"
		testkit.Check(t, enqueue(t, d, invitation(), other))
		testkit.Check(t, drain(d, x))
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			mails, total, err := mail.List(ctx, tx, "com_1", db.Page{PerPage: 10})
			if err != nil || total != 1 || len(mails) != 1 {
				t.Fatalf("%d of %d mails, %v", len(mails), total, err)
			}
			k := mails[0]
			if k.To != "ada@example.com" || !strings.HasPrefix(k.Subject, "[Sandbox] ") ||
				!strings.Contains(k.Text, "/invitation/s3cr3t-token") ||
				!strings.Contains(k.Text, "Sandbox – no real money") || !strings.Contains(k.HTML, "Sandbox – no real money") {
				t.Errorf("stored %+v", k)
			}
			return nil
		})
	})
}

func TestInvalidMessagesAreRejected(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	for _, to := range []string{
		"", "ada", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com\nBcc: eve@example.com",
		"Ada <ada@example.com>",
		"ada@example.com, eve@example.com", "\"a\r\nb\"@example.com", "ada@example.com\x00", strings.Repeat("a", 250) +
			"@example.com",
	} {
		m := invitation()
		m.To = to
		if err := enqueue(t, d, m); !errors.Is(err, mail.ErrAddress) {
			t.Errorf("%q: %v", to, err)
		}
	}
	for name, change := range map[string]func(*mail.Message){
		"template": func(m *mail.Message) { m.Template = "no such" },
		"data":     func(m *mail.Message) { m.Data = mail.KYCResultData{} },
		"key":      func(m *mail.Message) { m.Key = "" },
		"sealer":   func(m *mail.Message) { m.Sealer = nil },
	} {
		m := invitation()
		change(&m)
		if err := enqueue(t, d, m); err == nil {
			t.Errorf("a wrong %s was accepted", name)
		}
	}
	if due, parked := waiting(t, d); due+parked != 0 {
		t.Errorf("rejected mails have %d jobs", due+parked)
	}
}

func TestNamesCannotBecomeHeadersOrParagraphs(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	server := startServer(t, nil)
	m := invitation()
	m.Data = mail.InvitationData{Company: "Acme\r\nBcc: eve@example.com\r\n\r\nPay \u202eevil here: https://evil.example",
		Token: "t"}
	testkit.Check(t, enqueue(t, d, m))
	testkit.Check(t, drain(d, mailer(t, "smtp://"+server.addr)))
	mails := server.all()
	got := parse(t, mails[0].raw)
	if len(mails[0].to) != 1 || got.header.Get("Bcc") != "" || strings.Contains(got.text, "\nPay") ||
		strings.Contains(got.text, "\u202e") {
		t.Errorf("to %q, header %v, text\n%s", mails[0].to, got.header, got.text)
	}
}

// certificate returns a self-signed certificate and a pool that trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, pool
}

func TestPasswordsAreSentToOtherMachinesOnlyWithTLS(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	cert, pool := certificate(t)

	bare := startServer(t, nil)
	x := mailer(t, "smtp://stipend:pass%20word@"+bare.addr)
	x.Server.RequireTLS()
	testkit.Check(t, enqueue(t, d, invitation()))
	if err := drain(d, x); err == nil || len(bare.all()) != 0 || bare.user != "" {
		t.Errorf("a server without TLS received %d mails and the password of %q: %v", len(bare.all()), bare.user, err)
	}

	for name, trusted := range map[string]bool{"untrusted": false, "trusted": true} {
		secure := startServer(t, cert)
		x := mailer(t, "smtp://stipend:pass%20word@"+secure.addr)
		x.Server.RequireTLS()
		if trusted {
			x.Server.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		}
		m := invitation()
		m.Key = name
		testkit.Check(t, enqueue(t, d, m))
		err := drain(d, x)
		if trusted && (err != nil || len(secure.all()) != 1 || secure.user != "stipend") {
			t.Errorf("a server with a trusted certificate received %d mails from %q: %v", len(secure.all()), secure.user, err)
		}
		if !trusted && (err == nil || len(secure.all()) != 0 || secure.user != "") {
			t.Errorf("a server with an untrusted certificate received %d mails from %q: %v", len(secure.all()), secure.user, err)
		}
	}
}

func TestParseSMTP(t *testing.T) {
	for text, secure := range map[string]bool{
		"smtp://mail.example.com": true, "smtp://u:p@mail.example.com:2525": true, "smtps://mail.example.com": true,
		"smtp://127.0.0.1:25": false, "smtp://localhost": false, "smtp://[::1]:25": false,
		"smtp://localhost.example.com": true,
	} {
		s, err := mail.ParseSMTP(text)
		if err != nil || s.NeedsTLS() != secure {
			t.Errorf("%s: TLS needed %v, %v", text, s.NeedsTLS(), err)
		}
	}
	for _, text := range []string{"", "mail.example.com:587", "http://mail.example.com", "smtp://:secret@",
		"smtp://u:secret@h:0", "smtp://u:secret@h:99999", "smtp://u:secret@h/path", "smtp://u:secret@h?x=1"} {
		if _, err := mail.ParseSMTP(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLanguageOfACountry(t *testing.T) {
	for country, want := range map[string]string{"MX": "es", "BR": "pt", "FR": "fr", "US": "en", "DE": "de", "": "",
		"??": ""} {
		if got := mail.LanguageOf(country); got != want {
			t.Errorf("%q: %q, want %q", country, got, want)
		}
	}
}
