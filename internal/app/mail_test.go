package app_test

import (
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"golang.org/x/oauth2"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/trigger"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// mailServer is an SMTP server that accepts every email.
type mailServer struct {
	mu    sync.Mutex
	mails map[string][]string // by recipient
}

type mailSession struct {
	*mailServer
	to []string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}
func (s *mailSession) Reset()        { s.to = nil }
func (s *mailSession) Logout() error { return nil }
func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, to := range s.to {
		s.mails[to] = append(s.mails[to], string(text))
	}
	return err
}

// got reports whether an email to an address ("" is any) arrived with these words in its subject, as text and as
// HTML.
func (o *mailServer) got(to, subject string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for address, mails := range o.mails {
		for _, m := range mails {
			head, body, _ := strings.Cut(m, "\r\n\r\n")
			head = strings.ReplaceAll(head, "\r\n ", " ") // unfold long lines
			head = testkit.Must(new(mime.WordDecoder).DecodeHeader(head))
			if (to == "" || to == address) && strings.Contains(head, "Subject: ") && strings.Contains(head, subject) &&
				strings.Contains(body, "text/plain") && strings.Contains(body, "text/html") {
				return true
			}
		}
	}
	return false
}

// The service sends each kind of email when its cause happens, as text and HTML, over a real SMTP connection.
func TestMailsArriveBySMTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	o := &mailServer{mails: map[string][]string{}}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{mailServer: o},
			nil
	}))
	server.Domain = "localhost"
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })

	s := boot(t, dbtest.SQLite(t), func(c *app.Config) {
		c.SMTPURL, c.MailFrom = "smtp://"+l.Addr().String(),
			"pay@example.com"
	})
	d := newAPIClient(t, s)
	c := &trigger.Client{Client: sandboxClient(t, s.Ready().BaseURL)}

	invited, err := c.Invite(t.Context())
	testkit.Check(t, err)
	if _, err := c.MakeVerified(t.Context()); err != nil {
		t.Fatal(err)
	}
	var payee struct {
		ID string `json:"recipient_id"`
	}
	at := "/api/company/" + s.Ready().Seed.CompanyID + "/recipients/"
	testkit.Check(t, c.Post(t.Context(), at+"create", map[string]string{"first_name": "Ada", "last_name": "Example",
		"country": "GB", "email": "ada@example.com"}, &payee))
	testkit.Check(t, c.GiveDestination(t.Context(), at+payee.ID))
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	defer gone.Close()
	var endpoint struct {
		ID string `json:"webhook_id"`
	}
	testkit.Check(t, c.Post(t.Context(), "/api/webhooks", map[string]any{"url": gone.URL}, &endpoint))
	testkit.Check(t, c.Post(t.Context(), "/api/webhooks/"+endpoint.ID+"/test", nil, nil))
	seed := s.Ready().Seed
	partner := oauth2.Config{ClientID: seed.ClientID, RedirectURL: seed.RedirectURI,
		Scopes:   []string{"c_company_worker_list"},
		Endpoint: oauth2.Endpoint{AuthURL: s.Ready().AuthURL + "/authorize"}}
	agree(t, webtest.NewVisitor(t, s.Ready().AuthURL), seed.Admin, partner.AuthCodeURL("state",
		oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	made := d.payTwo("100.00")
	d.deposit(made.PayrollID, "exact", "")
	// This payee's bank has closed their account.
	closed := at + "create"
	if err := c.Post(t.Context(), closed, map[string]string{"first_name": "Bea", "last_name": "Example", "country": "DE",
		"email": "bea@example.com"}, &payee); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, c.Post(t.Context(), at+payee.ID+"/distribution", map[string]any{"symbol": "EUR",
		"distribution_data": map[string]string{
			"account_holder_name": "Bea Example", "account_holder_type": "individual", "iban": germanIBAN("370400440990" +
				reasonNumber("AC04")),
		}}, nil))
	testkit.Check(t, trigger.PayTo(payee.ID, trigger.Pay("exact"))(t.Context(), c))

	for _, wanted := range []struct{ to, subject string }{
		{invited, "invites you to get paid"},
		{"", "Ihre Identität ist verifiziert"}, // of a user in Germany
		{"ada@example.com", "A payout destination was added"},
		{"", "was disabled"},
		{seed.Admin.Email, "was connected to your account"},
		{seed.Workers[0].Email, "paid you"},
		{"bea@example.com", "wurde zurückgebucht"},
	} {
		eventually(t, 2*time.Minute, "mail "+wanted.subject, func() bool { return o.got(wanted.to, wanted.subject) })
	}
}
