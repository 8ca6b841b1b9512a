// Package sumsub has people and companies verified by Sumsub, by its published interface (docs.sumsub.com/reference).
//
// A case is an applicant whose externalUserId is the case, so that a repeated submission finds the first one. Each
// request is signed with the secret of the app token; each callback with a secret of its own.
package sumsub

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"github.com/stipend/stipend/internal/kyc"
)

// Options are what the vendor's dashboard shows. All but URL and Client are required.
type Options struct {
	URL           string // "" is https://api.sumsub.com
	Token         string // app token
	Secret        string // that signs requests
	WebhookSecret string // that signs callbacks
	PersonLevel   string // names of the verification levels
	CompanyLevel  string
	Now           func() time.Time // for signatures; the vendor allows a minute
	Client        *http.Client
}

// Provider is Sumsub.
type Provider struct{ o Options }

var _ kyc.Provider = (*Provider)(nil)

// New makes a provider.
func New(o Options) *Provider {
	if o.URL == "" {
		o.URL = "https://api.sumsub.com"
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 20 * time.Second}
	}
	return &Provider{o}
}

// Name says which provider a case was given to.
func (*Provider) Name() string { return "sumsub" }

// PollEvery is how often an undecided case is asked for: callbacks may be lost.
func (*Provider) PollEvery() time.Duration { return 15 * time.Minute }

type applicant struct {
	ID     string `json:"id"`
	Review review `json:"review"`
}

type review struct {
	Status string `json:"reviewStatus"`
	Result struct {
		Answer     string   `json:"reviewAnswer"`
		Labels     []string `json:"rejectLabels"`
		RejectType string   `json:"reviewRejectType"`
	} `json:"reviewResult"`
}

// Submit creates the applicant, uploads the documents and asks for the check. An applicant whose check was asked for
// is left alone.
func (p *Provider) Submit(ctx context.Context, a kyc.Application) (string, error) {
	made, err := p.create(ctx, a)
	if err != nil {
		return "", err
	}
	if made.Review.Status != "" && made.Review.Status != "init" {
		return made.ID, nil
	}
	at := "/resources/applicants/" + url.PathEscape(made.ID)
	for _, d := range a.Document {
		if err := p.upload(ctx, at+"/info/idDoc", d, a.Company != nil); err != nil {
			return "", err
		}
	}
	return made.ID, p.call(ctx, http.MethodPost, at+"/status/pending", "application/json", nil, nil)
}

func (p *Provider) create(ctx context.Context, a kyc.Application) (made applicant, err error) {
	level, body := p.o.PersonLevel, map[string]any{"externalUserId": a.CaseID}
	if who := a.Person; who != nil {
		body["email"], body["phone"] = who.Email, who.PhoneNumber
		body["fixedInfo"] = map[string]any{
			"firstName": who.FirstName, "lastName": who.LastName, "dob": who.DateOfBirth, "country": alpha3(who.Country),
			"addresses": []map[string]string{{
				"street": who.StreetAddress, "subStreet": who.StreetAddress2, "town": who.City, "state": who.State,
				"postCode": who.Zip, "country": alpha3(who.Country),
			}},
		}
	}
	if firm := a.Company; firm != nil {
		level = p.o.CompanyLevel
		body["type"], body["email"] = "company", firm.Email
		body["fixedInfo"] = map[string]any{"companyInfo": map[string]string{
			"companyName": firm.Name, "registrationNumber": firm.RegistrationNumber, "country": alpha3(firm.Country),
			"incorporatedOn": firm.IncorporationDate,
			"legalAddress":   strings.Join([]string{firm.StreetAddress, firm.Zip, firm.City}, ", "), "website": firm.Website,
			"email": firm.Email,
		}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return made, err
	}
	err = p.call(ctx, http.MethodPost, "/resources/applicants?levelName="+url.QueryEscape(level), "application/json", text,
		&made)
	var refused *statusError
	if errors.As(err, &refused) && refused.status == http.StatusConflict { // an earlier submission whose answer was lost
		err = p.call(ctx, http.MethodGet, "/resources/applicants/-;externalUserId="+url.PathEscape(a.CaseID)+"/one", "", nil,
			&made)
	}
	if err == nil && made.ID == "" {
		err = errors.New("sumsub: an applicant without an id")
	}
	return made, err
}

// kinds are the vendor's words for documents.
var kinds = map[string]string{
	kyc.Passport: "PASSPORT", "national_id": "ID_CARD", "voter_id": "ID_CARD", "drivers_license": "DRIVERS",
	"residence_permit": "RESIDENCE_PERMIT",
	kyc.Selfie:         "SELFIE", kyc.ProofOfAddress: "UTILITY_BILL",
}

func (p *Provider) upload(ctx context.Context, at string, d kyc.Paper, firm bool) error {
	data, err := d.JPEG(ctx)
	if err != nil {
		return err
	}
	about := map[string]string{"idDocType": kinds[d.DocType], "country": alpha3(d.IssuingCountry)}
	if firm || about["idDocType"] == "" {
		about["idDocType"] = "COMPANY_DOC"
	}
	switch d.DocType {
	case "national_id", "voter_id", "drivers_license", "residence_permit":
		about["idDocSubType"] = map[string]string{kyc.Front: "FRONT_SIDE", kyc.Back: "BACK_SIDE"}[d.Category]
	}
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.WriteField("metadata", string(text)); err != nil {
		return err
	}
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="content"; filename="` + d.ID + `.jpg"`}, "Content-Type": {"image/jpeg"},
	})
	if err != nil {
		return err
	}
	if _, err := part.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return p.call(ctx, http.MethodPost, at, w.FormDataContentType(), body.Bytes(), nil)
}

// Fetch says where the applicant stands.
func (p *Provider) Fetch(ctx context.Context, ref string) (kyc.Outcome, error) {
	var r review
	if err := p.call(ctx, http.MethodGet, "/resources/applicants/"+url.PathEscape(ref)+"/status", "", nil,
		&r); err != nil {
		return kyc.Outcome{}, err
	}
	o := kyc.Outcome{State: kyc.InReview}
	switch r.Status {
	case "completed":
	case "init", "pending", "prechecked", "queued", "onHold", "awaitingService", "awaitingUser":
		return o, nil
	default:
		return o, fmt.Errorf("sumsub: the applicant %s is in the status %.40q, which this version does not know", ref,
			r.Status)
	}
	switch {
	case r.Result.Answer == "GREEN":
		o.State = kyc.Approved
	case r.Result.Answer == "RED" && r.Result.RejectType == "RETRY":
		o.State = kyc.Resubmission
	case r.Result.Answer == "RED" && r.Result.RejectType == "FINAL":
		o.State = kyc.Rejected
	default:
		return o, fmt.Errorf("sumsub: the review of the applicant %s ended with %.40q %.40q, which this version does not "+
			"know", ref, r.Result.Answer, r.Result.RejectType)
	}
	for _, label := range r.Result.Labels {
		o.Reasons = append(o.Reasons, strings.ToLower(strings.ReplaceAll(label, " ", "_")))
	}
	return o, nil
}

// callbackAge is how far a callback's time may be from now. An older one that the vendor repeats is refused: the case
// is asked for by the clock anyway.
const callbackAge = 5 * time.Minute

// Callback checks the digest over the raw body, and the time in it.
func (p *Provider) Callback(h http.Header, body []byte, now time.Time) (kyc.Notice, error) {
	algorithms := map[string]func() hash.Hash{"HMAC_SHA256_HEX": sha256.New, "HMAC_SHA512_HEX": sha512.New}
	algorithm := algorithms[h.Get("X-Payload-Digest-Alg")]
	if algorithm == nil || p.o.WebhookSecret == "" {
		return kyc.Notice{}, kyc.ErrCallback
	}
	sent, err := hex.DecodeString(h.Get("X-Payload-Digest"))
	if err != nil || !hmac.Equal(sent, digest(algorithm, p.o.WebhookSecret, body)) {
		return kyc.Notice{}, kyc.ErrCallback
	}
	var in struct {
		ApplicantID string `json:"applicantId"`
		CreatedAtMs string `json:"createdAtMs"` // 2020-02-21 13:23:19.321, UTC
	}
	if json.Unmarshal(body, &in) != nil || in.ApplicantID == "" {
		return kyc.Notice{}, kyc.ErrCallback
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", in.CreatedAtMs)
	if err != nil || at.Sub(now).Abs() > callbackAge {
		return kyc.Notice{}, kyc.ErrCallback
	}
	sum := sha256.Sum256(body) // the vendor names none
	return kyc.Notice{ID: hex.EncodeToString(sum[:]), Ref: in.ApplicantID}, nil
}

func digest(algorithm func() hash.Hash, secret string, data ...[]byte) []byte {
	mac := hmac.New(algorithm, []byte(secret))
	for _, d := range data {
		mac.Write(d)
	}
	return mac.Sum(nil)
}

type statusError struct{ status int }

// Error leaves the answer's text out: it may repeat personal data.
func (e *statusError) Error() string { return fmt.Sprintf("sumsub: answered %d", e.status) }

func (p *Provider) call(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, p.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	at := strconv.FormatInt(p.o.Now().Unix(), 10)
	r.Header.Set("X-App-Token", p.o.Token)
	r.Header.Set("X-App-Access-Ts", at)
	r.Header.Set("X-App-Access-Sig", hex.EncodeToString(digest(sha256.New, p.o.Secret, []byte(at+method+path), body)))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := p.o.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return &statusError{answer.StatusCode}
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// alpha3 is a country as the vendor spells it.
func alpha3(code string) string {
	region, err := language.ParseRegion(code)
	if err != nil {
		return code
	}
	return region.ISO3()
}
