// Package trigger causes real events in a sandbox, through the public API and with an API key.
package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
)

// trigger describes and causes an event.
type trigger struct {
	how string
	do  func(ctx context.Context, c *Client) error
}

var triggers = map[string]trigger{
	"recipient.created": {"creates a recipient", func(ctx context.Context, c *Client) error {
		_, err := c.MakeRecipient(ctx)
		return err
	}},
	"recipient.status_update": {"creates a recipient and gives them a destination", func(ctx context.Context,
		c *Client) error {
		_, err := c.makePayee(ctx)
		return err
	}},
	"distribution.changed": {"creates a recipient and gives them a destination", func(ctx context.Context,
		c *Client) error {
		_, err := c.makePayee(ctx)
		return err
	}},
	"distribution.correction_asked": {"pays a payroll to a bank account whose number the bank wants changed",
		askCorrection},
	"user.create_user": {"creates a user", func(ctx context.Context, c *Client) error {
		_, err := c.makeUser(ctx)
		return err
	}},
	"user.kyc_status_update":      {"creates a user and has their verification approved", verifyUser},
	"user.funding_account_status": {"creates a verified user and opens a funding account for them", openFunding},
	"company.kyb_status_update": {"hands in what the verification of the company needs, or has it decided anew",
		verifyCompany},
	"invitation.revoked": {"invites a worker and takes the invitation back", revokeInvitation},
	"invitation.sent": {"invites a worker", func(ctx context.Context, c *Client) error {
		_,
			err := c.Invite(ctx)
		return err
	}},
	"invitation.accepted": {"invites a worker and accepts by the link in the mail that the sandbox kept",
		acceptInvitation},
	"invitation.expired": {"invites a worker and lets the invitation end (moves the clock by 14 days)",
		outliveInvitation},
	"invoice.created": {"creates a user and a payer, and writes an invoice", func(ctx context.Context,
		c *Client) error {
		return writeInvoice(ctx, c, false)
	}},
	"invoice.status_update": {"drafts an invoice and sends it", func(ctx context.Context,
		c *Client) error {
		return writeInvoice(ctx, c, true)
	}},
	"payroll.funding_reverted":   {"creates a payroll and pays it in a block that is thrown out again", revertFunding},
	"payroll.created":            {"creates a payroll", payrollThen()},
	"payroll.funding_detected":   {"creates a payroll and pays it", payrollThen(Pay("exact"))},
	"payroll.status_update":      {"creates a payroll and pays it", payrollThen(Pay("exact"))},
	"user.payment_status_update": {"creates a payroll and pays it", payrollThen(Pay("exact"))},
	"payroll.funding_late":       {"creates a payroll and pays it too late (moves the clock)", payrollThen(Pay("late"))},
	"payroll.quote_expired":      {"creates a payroll and lets its quote end (moves the clock)", payrollThen(outlive)},
	"payroll.quote_refreshed": {"creates a payroll, lets its quote end and asks for another (moves the clock)",
		payrollThen(outlive, refresh)},
	"payout.delayed": {
		"pays a payroll while the simulated chain asks for more than payouts may cost (for every company, for some seconds)",
		delayPayout},
	"payout.returned": {"pays a payroll to a bank account, and has the bank send it back", returnPayout},
	"withdrawal.created": {
		"pays a payroll too much, and takes what is left over to the first destination of the company in bitcoin", takeOut},
	"withdrawal.status_update": {
		"pays a payroll too much, and takes what is left over to the first destination of the company in bitcoin", takeOut},
	"claim.created":       {"creates a claim", claimThen()},
	"claim.status_update": {"creates a claim and pays it", claimThen(payClaim)},
	"claim.quote_expired": {"creates a claim and lets its quote end (moves the clock)", claimThen(outliveClaim)},
	"claim.quote_refreshed": {"creates a claim, lets its quote end and asks for another (moves the clock)",
		claimThen(outliveClaim, refreshClaim)},
	"wallet.created": {"asks for a wallet in a currency that the sandbox holds no money in", refusedWallet},
	"wallet.deposit_update": {"pays coins to the company's wallet in bitcoin, and asks for one where there is none",
		payWallet},
	"wallet.status_update":     {"asks for a wallet in a currency that the sandbox holds no money in", refusedWallet},
	"merchant.settings_update": {"saves the merchant settings as they are", saveSettings},
	"payer.created": {"creates a user and a payer of theirs", func(ctx context.Context, c *Client) error {
		_,
			_, err := c.makePayer(ctx)
		return err
	}},
	"payer.status_update": {"creates a user and a payer of theirs, and deletes the payer", deletePayer},
	"refund.created": {"creates a claim, pays it too much, and offers what is too much back",
		claimThen(overpayClaim, offerRefund)},
	"refund.status_update": {
		"creates a claim, pays it too much, and offers what is too much twice: the first offer ends", claimThen(overpayClaim,
			offerRefund, offerRefund)},
	"settlement.created": {
		"creates a claim and pays it, and settles what it brought (changes the merchant settings meanwhile)", settle},
	"transfer.received": {"opens a funding account for a user, and transfers to it", transferIn},
	"transfer.status_update": {
		"creates a payroll that is funded by bank, transfers to it, and has the bank take it back", takeTransferBack},
	"webhook.status_update": {"registers an endpoint, disables it and deletes it", disableEndpoint},
	"webhook.test":          {"has the first endpoint of the company tested", pingFirst},
}

// Run causes an event, waits for it and returns it.
func Run(ctx context.Context, c *apiclient.Client, event string) (json.RawMessage, error) {
	after, err := c.NewestEvent(ctx)
	if err != nil {
		return nil, err
	}
	if err := triggers[event].do(ctx, &Client{c}); err != nil {
		return nil, err
	}
	return (&Client{c}).awaitNext(ctx, after, event)
}

// Known reports whether an event can be triggered.
func Known(event string) bool {
	_, known := triggers[event]
	return known
}

// Events returns the names of the events that can be triggered, sorted.
func Events() []string { return slices.Sorted(maps.Keys(triggers)) }

// How returns a description of how an event is caused.
func How(event string) string { return triggers[event].how }

// Client creates the objects of events.
type Client struct{ *apiclient.Client }

// interval is the pause between two requests while a function waits for a change.
const interval = 100 * time.Millisecond

// awaitNext waits for the first event with a name after the event with the ID after.
func (c *Client) awaitNext(ctx context.Context, after, name string) (json.RawMessage, error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		page, err := c.EventsAfter(ctx, after, name)
		if err == nil && len(page.Data) > 0 {
			return page.Data[0], nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (c *Client) company(ctx context.Context) (string, error) {
	var company struct {
		ID string `json:"company_id"`
	}
	return company.ID, c.Get(ctx, "/api/company", &company)
}

// MakeRecipient creates a recipient in GB and returns the recipient's path in the API.
func (c *Client) MakeRecipient(ctx context.Context) (path string, err error) {
	return c.makeRecipientIn(ctx, "GB")
}

func (c *Client) makeRecipientIn(ctx context.Context, country string) (path string, err error) {
	company, err := c.company(ctx)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"recipient_id"`
	}
	err = c.Post(ctx, "/api/company/"+company+"/recipients/create", map[string]string{
		"first_name": "Ada", "last_name": "Example", "country": country, "external_id": "trigger-" + uuid.NewString(),
	}, &made)
	return "/api/company/" + company + "/recipients/" + made.ID, err
}

// makePayee creates a recipient with a destination and returns the recipient's ID.
func (c *Client) makePayee(ctx context.Context) (string, error) {
	path, err := c.MakeRecipient(ctx)
	if err != nil {
		return "", err
	}
	return path[strings.LastIndexByte(path, '/')+1:], c.GiveDestination(ctx, path)
}

// newAddress returns a new address on the simulated chain.
func newAddress() (string, error) {
	wallet, err := sandbox.NewWallet("regtest")
	if err != nil {
		return "", err
	}
	return wallet.Deriver().Address(chain.External, 0)
}

// GiveDestination adds a new address as the destination of the recipient at path.
func (c *Client) GiveDestination(ctx context.Context, path string) error {
	address, err := newAddress()
	if err != nil {
		return err
	}
	return c.Post(ctx, path+"/distribution", map[string]any{"symbol": "BTC",
		"distribution_data": map[string]string{"address": address}}, nil)
}

// Made is a payroll that a trigger created.
type Made struct {
	PayrollID string `json:"payroll_id"`
	Quote     struct {
		From time.Time `json:"valid_from"`
		To   time.Time `json:"valid_to"`
	} `json:"quote"`
}

// payrollThen creates a payroll of one payee and runs the steps with it.
func payrollThen(steps ...func(context.Context, *Client, Made) error) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		payee, err := c.makePayee(ctx)
		if err != nil {
			return err
		}
		return PayTo(payee, steps...)(ctx, c)
	}
}

// PayTo creates a payroll that pays one payee and runs the steps with it.
func PayTo(payee string, steps ...func(context.Context, *Client, Made) error) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		var p Made
		if err := c.Post(ctx, "/api/company/payroll/create", map[string]any{
			"currency": "USD", "to_pay": []map[string]any{{"user_id": payee, "amount_fiat": json.Number("100.00")}},
		}, &p); err != nil {
			return err
		}
		for _, step := range steps {
			if err := step(ctx, c, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// Pay returns a step that pays a payroll with a deposit of a kind.
func Pay(kind string) func(context.Context, *Client, Made) error {
	return func(ctx context.Context, c *Client, p Made) error {
		return c.Post(ctx, "/api/sandbox/deposit", map[string]string{"payroll_id": p.PayrollID, "kind": kind}, nil)
	}
}

// revertFunding funds a payroll and, after the service has counted the payment, removes the payment's block from the
// chain. If the block was removed too early, it repeats this with another payroll.
func revertFunding(ctx context.Context, c *Client) error {
	for {
		err := payrollThen(Pay("reorged"), func(ctx context.Context, c *Client, p Made) error {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return c.awaitEvent(short, "payroll.funding_reverted", p.PayrollID)
		})(ctx, c)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// delayedRate is a fee rate above the limit of payouts, in sat/vB.
const delayedRate = 1_000

// delayPayout raises the chain's fee rate until a payout is delayed, and resets it.
func delayPayout(ctx context.Context, c *Client) (err error) {
	after, err := c.NewestEvent(ctx)
	if err != nil {
		return err
	}
	var fee struct {
		Before int64 `json:"previous_sat_per_vbyte"`
	}
	set := func(ctx context.Context, rate int64) error {
		return c.Post(ctx, "/api/sandbox/fee-rate", map[string]int64{"sat_per_vbyte": rate}, &fee)
	}
	if err := set(ctx, delayedRate); err != nil {
		return err
	}
	before := fee.Before
	defer func() { // reset the rate even after a timeout
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, set(ctx, before))
	}()
	if err := payrollThen(Pay("exact"))(ctx, c); err != nil {
		return err
	}
	_, err = c.awaitNext(ctx, after, "payout.delayed")
	return err
}

// payWallet pays a small amount to the address of the company's bitcoin wallet.
func payWallet(ctx context.Context, c *Client) error {
	if err := c.Post(ctx, "/api/wallets/request", map[string]string{"currency": "BTC"}, nil); err != nil {
		return err
	}
	for {
		var have struct {
			Wallets []struct {
				ID       string `json:"wallet_id"`
				Currency string `json:"currency"`
				Address  string `json:"address"`
			} `json:"wallets"`
		}
		if err := c.Get(ctx, "/api/wallets", &have); err != nil {
			return err
		}
		for _, w := range have.Wallets {
			if w.Currency == "BTC" && w.Address != "" {
				return c.Post(ctx, "/api/sandbox/deposit", map[string]any{"wallet_id": w.ID, "kind": "exact",
					"amount": json.Number("0.001")}, nil)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// takeOut withdraws a small amount to a destination of the company, once the balance is sufficient.
func takeOut(ctx context.Context, c *Client) error {
	type destination struct {
		ID       string `json:"destination_id"`
		Currency string `json:"currency"`
	}
	var to struct {
		Destinations []destination `json:"destinations"`
	}
	if err := c.Get(ctx, "/api/wallets/destinations", &to); err != nil {
		return err
	}
	i := slices.IndexFunc(to.Destinations, func(d destination) bool { return d.Currency == "BTC" })
	if i < 0 {
		return errors.New("the company has no destination in bitcoin; its owner names one at /wallets/destinations/new")
	}
	if err := payrollThen(Pay("over"))(ctx, c); err != nil {
		return err
	}
	return once(ctx, func() error {
		return c.Post(ctx, "/api/wallets/withdraw", map[string]any{"destination_id": to.Destinations[i].ID,
			"amount": json.Number("0.0001")}, nil)
	}, "insufficient_balance")
}

func outlive(ctx context.Context, c *Client, p Made) error {
	if err := c.outliveQuote(ctx, p.Quote.From, p.Quote.To); err != nil {
		return err
	}
	return c.awaitEvent(ctx, "payroll.quote_expired", p.PayrollID)
}

// outliveQuote advances the clock past the end of a quote, which is valid from a time to another.
func (c *Client) outliveQuote(ctx context.Context, from, to time.Time) error {
	return c.Post(ctx, "/api/sandbox/clock", map[string]int64{"advance_seconds": int64(to.Sub(from)/time.Second) + 1}, nil)
}

// once calls do until it succeeds, or fails with an error that contains none of the reasons.
func once(ctx context.Context, do func() error, reasons ...string) error {
	for {
		err := do()
		if err == nil || !slices.ContainsFunc(reasons, func(reason string) bool {
			return strings.Contains(err.Error(),
				reason)
		}) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// awaitEvent waits for an event of a payroll or claim.
func (c *Client) awaitEvent(ctx context.Context, name, objectID string) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		var page apiclient.EventPage
		err := c.Get(ctx, "/api/events?order=desc&limit=100&name="+name, &page)
		for _, body := range page.Data {
			if bytes.Contains(body, []byte(objectID)) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func refresh(ctx context.Context, c *Client, p Made) error {
	return c.Post(ctx, "/api/company/payroll/quote/refresh", map[string]string{"payroll_id": p.PayrollID}, nil)
}

// Invite invites a worker and returns the email address.
func (c *Client) Invite(ctx context.Context) (email string, err error) {
	company, err := c.company(ctx)
	if err != nil {
		return "", err
	}
	email = "trigger-" + uuid.NewString() + "@sandbox.example"
	return email, c.Post(ctx, "/api/company/worker/invite", map[string]string{"company_id": company, "email": email,
		"role": "contractor"}, nil)
}

func revokeInvitation(ctx context.Context, c *Client) error {
	email, err := c.Invite(ctx)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/company/worker/invite/revoke", map[string]string{"email": email}, nil)
}

func outliveInvitation(ctx context.Context, c *Client) error {
	if _, err := c.Invite(ctx); err != nil {
		return err
	}
	return c.Post(ctx, "/api/sandbox/clock", map[string]int64{"advance_seconds": int64((14*24*time.Hour +
		time.Minute) / time.Second)}, nil)
}

var invitationLink = regexp.MustCompile(`/invitation/[A-Za-z0-9_-]+`)

// acceptInvitation opens the link in the mail and submits the form, as the invited person does.
func acceptInvitation(ctx context.Context, c *Client) error {
	email, err := c.Invite(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		var mails struct {
			Data []struct{ To, Text string }
		}
		if err := c.Get(ctx, "/api/sandbox/mails", &mails); err != nil {
			return err
		}
		for _, m := range mails.Data {
			if link := invitationLink.FindString(m.Text); m.To == email && link != "" {
				return c.fillIn(ctx, link+"/accept", url.Values{
					"first_name": {"Ada"}, "last_name": {"Example"}, "date_of_birth": {"1990-01-31"}, "country": {"DE"},
					"street_address": {"Beispielweg 1"},
					"city":           {"Berlin"}, "zip": {"10115"},
				})
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; a sandbox with a mail server keeps no mails", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// fillIn submits the form of a web page as a browser does.
func (c *Client) fillIn(ctx context.Context, path string, form url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	if res.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("the form at %s: %s", path, res.Status)
	}
	return nil
}

// makeUser creates a user of the company and returns the ID.
func (c *Client) makeUser(ctx context.Context) (string, error) {
	var made struct {
		ID string `json:"user_id"`
	}
	err := c.Post(ctx, "/api/user/create", map[string]string{
		"email": "trigger-" + uuid.NewString() + "@sandbox.example", "phone_number": "+4930901820", "phone_country": "DE",
		"first_name": "Ada", "last_name": "Example",
		"date_of_birth": "1990-01-31", "street_address": "Beispielweg 1", "city": "Berlin", "state": "Berlin", "zip": "10115",
		"country": "DE", "product": "worker",
	}, &made)
	return made.ID, err
}

// MakeVerified creates a verified user and returns the user's ID.
func (c *Client) MakeVerified(ctx context.Context) (string, error) {
	user, err := c.makeUser(ctx)
	if err != nil {
		return "", err
	}
	return user, c.Post(ctx, "/api/sandbox/kyc", map[string]string{"user_id": user, "result": "approved"}, nil)
}

func verifyUser(ctx context.Context, c *Client) error {
	_, err := c.MakeVerified(ctx)
	return err
}

func openFunding(ctx context.Context, c *Client) error {
	_, err := c.makeFunding(ctx)
	return err
}

// makeFunding opens a funding account for a verified user and returns its ID.
func (c *Client) makeFunding(ctx context.Context) (string, error) {
	user, err := c.MakeVerified(ctx)
	if err != nil {
		return "", err
	}
	var terms struct {
		Version string `json:"terms_version"`
	}
	if err := c.Get(ctx, "/api/user/funding/account/tos?user_id="+user, &terms); err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"funding_account_id"`
	}
	err = c.Post(ctx, "/api/user/funding/account", map[string]string{"user_id": user, "currency": "EUR",
		"terms_version": terms.Version}, &made)
	return made.ID, err
}

func transferIn(ctx context.Context, c *Client) error {
	account, err := c.makeFunding(ctx)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/sandbox/bank-deposit", map[string]any{
		"funding_account_id": account, "amount": json.Number("100.00"), "currency": "EUR", "reference": "trigger-" +
			uuid.NewString(),
	}, nil)
}

// onePixel is a PNG of one pixel, which a sandbox accepts as a document.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// verifyCompany advances the company's verification by one step.
func verifyCompany(ctx context.Context, c *Client) error {
	var company struct {
		ID      string `json:"company_id"`
		Name    string `json:"name"`
		Country string `json:"country"`
		State   string `json:"kyb_state"`
	}
	if err := c.Get(ctx, "/api/company", &company); err != nil {
		return err
	}
	decide := func(result string) error {
		return c.Post(ctx, "/api/sandbox/kyb", map[string]string{"company_id": company.ID, "result": result}, nil)
	}
	switch company.State {
	case "submitted", "in_review", "ubo_pending":
		return decide("more_info")
	case "approved":
		return decide("suspended")
	case "rejected", "suspended":
		return fmt.Errorf("the verification of the company has ended: %s", company.State)
	}
	at := "/api/companies/" + company.ID
	if err := c.Post(ctx, "/api/companies", map[string]string{
		"company_id": company.ID, "name": company.Name, "country": company.Country, "registration_number": "HRB 1",
		"incorporation_date": "2001-02-03",
		"street_address":     "Beispielweg 1", "city": "Berlin",
	}, nil); err != nil {
		return err
	}
	var owner struct {
		ID string `json:"ubo_id"`
	}
	if err := c.Post(ctx, at+"/ubo", map[string]any{
		"first_name": "Ada", "last_name": "Example", "date_of_birth": "1970-01-31", "country": "DE",
		"ownership_percentage": 60,
	}, &owner); err != nil && company.State == "" {
		return err
	}
	for _, paper := range []map[string]string{
		{"doc_type": "certificate_of_incorporation"}, {"doc_type": "shareholder_register"}, {"doc_type": "passport",
			"category": "front", "ubo_id": owner.ID},
	} {
		if _, ofOwner := paper["ubo_id"]; ofOwner && owner.ID == "" {
			continue // the owner was added before
		}
		paper["issuing_country"], paper["base64_image"] = company.Country, onePixel
		if err := c.Post(ctx, at+"/documents", paper, nil); err != nil {
			return err
		}
	}
	return c.Post(ctx, at+"/kyb", map[string]string{}, nil)
}

// makePayer creates a payer of a user, and returns the IDs of both.
func (c *Client) makePayer(ctx context.Context) (user, payer string, err error) {
	if user, err = c.makeUser(ctx); err != nil {
		return "", "", err
	}
	var made struct {
		ID string `json:"external_company_id"`
	}
	err = c.Post(ctx, "/api/user/payer/create", map[string]string{
		"user_id": user, "name": "Sandbox Client", "company_type": "client", "payroll_invoice_currency": "USD",
	}, &made)
	return user, made.ID, err
}

func deletePayer(ctx context.Context, c *Client) error {
	user, payer, err := c.makePayer(ctx)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/user/payer/delete", map[string]string{"user_id": user, "external_company_id": payer}, nil)
}

// writeInvoice creates an invoice of a user, either sent at once or first as a draft.
func writeInvoice(ctx context.Context, c *Client, draft bool) error {
	user, payer, err := c.makePayer(ctx)
	if err != nil {
		return err
	}
	var invoice struct {
		ID string `json:"invoice_id"`
	}
	if err := c.Post(ctx, "/api/user/invoice/create", map[string]any{
		"user_id": user, "external_company_id": payer, "draft": draft, "items": []map[string]any{{"description": "Work",
			"unit_price": 100}},
	}, &invoice); err != nil || !draft {
		return err
	}
	return c.Post(ctx, "/api/user/invoice/send", map[string]string{"user_id": user, "invoice_id": invoice.ID}, nil)
}

// refusedWallet requests a wallet that is rejected, so that it can be requested again; an existing wallet would only
// be returned.
func refusedWallet(ctx context.Context, c *Client) error {
	return c.Post(ctx, "/api/wallets/request", map[string]string{"currency": "XRP"}, nil)
}

func disableEndpoint(ctx context.Context, c *Client) error {
	var made struct {
		ID string `json:"webhook_id"`
	}
	if err := c.Post(ctx, "/api/webhooks", map[string]any{"url": "http://127.0.0.1:9/",
		"description": "made by stipend trigger", "events": []string{"webhook.test"}}, &made); err != nil {
		return err
	}
	at := "/api/webhooks/" + made.ID
	return errors.Join(c.Post(ctx, at+"/disable", nil, nil), c.Do(ctx, http.MethodDelete, at, nil, nil))
}

func pingFirst(ctx context.Context, c *Client) error {
	var all struct {
		Data []struct {
			ID string `json:"webhook_id"`
		} `json:"data"`
	}
	if err := c.Get(ctx, "/api/webhooks", &all); err != nil {
		return err
	}
	if len(all.Data) == 0 {
		return errors.New("the company has no webhook endpoint; create one with POST /api/webhooks")
	}
	return c.Post(ctx, "/api/webhooks/"+all.Data[0].ID+"/test", nil, nil)
}
