// Package sumsub implements [kyc.Provider] with the API of Sumsub (docs.sumsub.com/reference).
//
// In Sumsub, a case is an applicant whose externalUserId is the case's ID, so that a repeated submission finds the
// existing applicant. Requests are signed with the secret of the app token; callbacks are signed with a separate
// secret.
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

// Options are the settings from Sumsub's dashboard. All fields except URL and Client are required.
type Options struct {
	URL           string           // "" means https://api.sumsub.com
	Token         string           // app token
	Secret        string           // signs requests
	WebhookSecret string           // signs callbacks
	PersonLevel   string           // name of the verification level for people
	CompanyLevel  string           // name of the verification level for companies
	Now           func() time.Time // clock for request signatures, which are valid for a minute
	Client        *http.Client
}

// Provider is a client of Sumsub.
type Provider struct{ o Options }

var _ kyc.Provider = (*Provider)(nil)

// New returns a provider.
func New(o Options) *Provider {
	if o.URL == "" {
		o.URL = "https://api.sumsub.com"
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 20 * time.Second}
	}
	return &Provider{o}
}

// Name returns "sumsub".
func (*Provider) Name() string { return "sumsub" }

// PollEvery returns the interval at which undecided cases are fetched.
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

// Submit creates the applicant, uploads the documents and requests the check. If the check was already requested,
// Submit does not change the applicant.
func (p *Provider) Submit(ctx context.Context, a kyc.Application) (string, error) {
	created, err := p.create(ctx, a)
	if err != nil {
		return "", err
	}
	if created.Review.Status != "" && created.Review.Status != "init" {
		return created.ID, nil
	}
	at := "/resources/applicants/" + url.PathEscape(created.ID)
	for _, d := range a.Documents {
		if err := p.upload(ctx, at+"/info/idDoc", d, a.Company != nil); err != nil {
			return "", err
		}
	}
	return created.ID, p.call(ctx, http.MethodPost, at+"/status/pending", "application/json", nil, nil)
}

// create creates the applicant of a case, or returns the existing one.
func (p *Provider) create(ctx context.Context, a kyc.Application) (created applicant, err error) {
	level, body := p.o.PersonLevel, map[string]any{"externalUserId": a.CaseID}
	if person := a.Person; person != nil {
		body["email"], body["phone"] = person.Email, person.PhoneNumber
		body["fixedInfo"] = map[string]any{
			"firstName": person.FirstName, "lastName": person.LastName, "dob": person.DateOfBirth,
			"country": alpha3(person.Country),
			"addresses": []map[string]string{{
				"street": person.StreetAddress, "subStreet": person.StreetAddress2, "town": person.City, "state": person.State,
				"postCode": person.Zip, "country": alpha3(person.Country),
			}},
		}
	}
	if company := a.Company; company != nil {
		level = p.o.CompanyLevel
		body["type"], body["email"] = "company", company.Email
		body["fixedInfo"] = map[string]any{"companyInfo": map[string]string{
			"companyName": company.Name, "registrationNumber": company.RegistrationNumber, "country": alpha3(company.Country),
			"incorporatedOn": company.IncorporationDate,
			"legalAddress":   strings.Join([]string{company.StreetAddress, company.Zip, company.City}, ", "),
			"website":        company.Website,
			"email":          company.Email,
		}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return created, err
	}
	err = p.call(ctx, http.MethodPost, "/resources/applicants?levelName="+url.QueryEscape(level), "application/json", text,
		&created)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusConflict { // an earlier attempt created the applicant
		err = p.call(ctx, http.MethodGet, "/resources/applicants/-;externalUserId="+url.PathEscape(a.CaseID)+"/one", "", nil,
			&created)
	}
	if err == nil && created.ID == "" {
		err = errors.New("sumsub: the response has no applicant ID")
	}
	return created, err
}

// kinds are Sumsub's names of the kinds of documents.
var kinds = map[string]string{
	kyc.Passport: "PASSPORT", kyc.Selfie: "SELFIE", kyc.ProofOfAddress: "UTILITY_BILL", "national_id": "ID_CARD",
	"voter_id": "ID_CARD", "drivers_license": "DRIVERS", "residence_permit": "RESIDENCE_PERMIT",
}

func (p *Provider) upload(ctx context.Context, at string, d kyc.DocumentFile, isCompany bool) error {
	data, err := d.JPEG(ctx)
	if err != nil {
		return err
	}
	about := map[string]string{"idDocType": kinds[d.DocType], "country": alpha3(d.IssuingCountry)}
	if isCompany || about["idDocType"] == "" {
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

// Fetch returns the outcome of an applicant's review. An unknown review status or answer is an error and decides
// nothing.
func (p *Provider) Fetch(ctx context.Context, ref string) (kyc.Outcome, error) {
	var r review
	err := p.call(ctx, http.MethodGet, "/resources/applicants/"+url.PathEscape(ref)+"/status", "", nil, &r)
	if err != nil {
		return kyc.Outcome{}, err
	}
	o := kyc.Outcome{State: kyc.InReview}
	switch r.Status {
	case "completed":
	case "init", "pending", "prechecked", "queued", "onHold", "awaitingService", "awaitingUser":
		return o, nil
	default:
		return o, fmt.Errorf("sumsub: applicant %s has the unknown status %.40q", ref, r.Status)
	}
	switch {
	case r.Result.Answer == "GREEN":
		o.State = kyc.Approved
	case r.Result.Answer == "RED" && r.Result.RejectType == "RETRY":
		o.State = kyc.Resubmission
	case r.Result.Answer == "RED" && r.Result.RejectType == "FINAL":
		o.State = kyc.Rejected
	default:
		return o, fmt.Errorf("sumsub: the review of applicant %s ended with the unknown answer %.40q %.40q",
			ref, r.Result.Answer, r.Result.RejectType)
	}
	for _, label := range r.Result.Labels {
		o.Reasons = append(o.Reasons, strings.ToLower(strings.ReplaceAll(label, " ", "_")))
	}
	return o, nil
}

// callbackAge is the maximum difference between the time in a callback and now. Rejecting older callbacks loses
// nothing, because undecided cases are also polled.
const callbackAge = 5 * time.Minute

// algorithms are the algorithms with which callbacks are signed.
var algorithms = map[string]func() hash.Hash{"HMAC_SHA256_HEX": sha256.New, "HMAC_SHA512_HEX": sha512.New}

// Signed reports whether the headers name a known algorithm and contain a digest of the right length.
func (p *Provider) Signed(h http.Header) bool {
	algorithm := algorithms[h.Get("X-Payload-Digest-Alg")]
	return algorithm != nil && p.o.WebhookSecret != "" &&
		len(h.Get("X-Payload-Digest")) == hex.EncodedLen(algorithm().Size())
}

// Callback verifies the signature of the body and the time in it.
func (p *Provider) Callback(h http.Header, body []byte, now time.Time) (kyc.Notice, error) {
	if !p.Signed(h) {
		return kyc.Notice{}, kyc.ErrCallback
	}
	algorithm := algorithms[h.Get("X-Payload-Digest-Alg")]
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
	sum := sha256.Sum256(body) // used as the ID, because callbacks have none
	return kyc.Notice{ID: hex.EncodeToString(sum[:]), Ref: in.ApplicantID}, nil
}

func digest(algorithm func() hash.Hash, secret string, data ...[]byte) []byte {
	mac := hmac.New(algorithm, []byte(secret))
	for _, d := range data {
		mac.Write(d)
	}
	return mac.Sum(nil)
}

type statusError struct{ code int }

// Error does not include the response body, because it may contain personal data.
func (e *statusError) Error() string { return fmt.Sprintf("sumsub: response status %d", e.code) }

// call sends a signed request and decodes the JSON response into out, unless out is nil.
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
	response, err := p.o.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case response.StatusCode < 200 || response.StatusCode > 299:
		return &statusError{response.StatusCode}
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// alpha3 returns the three-letter code of a country.
func alpha3(code string) string {
	region, err := language.ParseRegion(code)
	if err != nil {
		return code
	}
	return region.ISO3()
}
