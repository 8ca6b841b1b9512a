// Package trigger causes real events in a sandbox. It uses the public API with an API key.
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

// step is one step of a trigger, which calls the API.
type step = func(context.Context, *Client) error

// fields are the members of a JSON object.
type fields = map[string]any

// trigger describes an event and how to cause it.
type trigger struct {
	how string
	do  step
}

// only returns a step that creates an object and ignores the object's ID.
func only(create func(*Client, context.Context) (string, error)) step {
	return func(ctx context.Context, c *Client) error {
		_, err := create(c, ctx)
		return err
	}
}

var triggers = map[string]trigger{
	"recipient.created":       {"creates a recipient", only((*Client).MakeRecipient)},
	"recipient.status_update": {"creates a recipient with a destination", only((*Client).makePayee)},
	"distribution.changed":    {"creates a recipient with a destination", only((*Client).makePayee)},
	"distribution.checked":    {"creates a recipient with a bank account, which the simulated bank checks", checkAccount},
	"distribution.correction_asked": {"pays a payroll to a bank account whose number the bank asks to correct",
		askCorrection},
	"distribution.correction_disputed": {"pays a payroll to a bank account whose number the bank asks to correct, and " +
		"disputes the correction", disputeCorrection},
	"user.create_user":            {"creates a user", only((*Client).makeUser)},
	"user.kyc_status_update":      {"creates a user and approves the user's verification", only((*Client).MakeVerified)},
	"user.funding_account_status": {"creates a verified user with a funding account", only((*Client).makeFunding)},
	"company.kyb_status_update":   {"takes the next step of the company's verification", verifyCompany},
	"invitation.revoked":          {"invites a worker and revokes the invitation", revokeInvitation},
	"invitation.sent":             {"invites a worker", only((*Client).Invite)},
	"invitation.accepted": {"invites a worker and accepts by the link in the mail that the sandbox stored",
		acceptInvitation},
	"invitation.expired": {"invites a worker and lets the invitation expire (advances the clock by 14 days)",
		outliveInvitation},
	"income.received":       {"opens a funding account for a user, and transfers money to it", transferIn},
	"income.status_update":  {"opens a funding account for a user, and transfers money to it", transferIn},
	"invoice.created":       {"creates a user and a payer, and creates an invoice", writeInvoice(false)},
	"invoice.status_update": {"creates a draft of an invoice and sends it", writeInvoice(true)},
	"payroll.funding_reverted": {"creates a payroll and pays it in a block that then leaves the chain",
		revertFunding},
	"payroll.created":            {"creates a payroll", payrollThen()},
	"payroll.updated":            {"creates a payroll and changes its reference", payrollThen(rename)},
	"platform.company_created":   {"creates a company for the app of the API key", createCompany},
	"platform.company_update":    {"creates a company for the app of the API key, and changes the fee", createCompany},
	"proposal.created":           {"proposes a payroll and cancels the proposal", propose},
	"proposal.status_update":     {"proposes a payroll and cancels the proposal", propose},
	"schedule.created":           {"creates a schedule and ends it", runSchedule},
	"schedule.run_update":        {"creates a schedule, skips a run and ends the schedule", runSchedule},
	"schedule.status_update":     {"creates a schedule and ends it", runSchedule},
	"payroll.funding_detected":   {"creates a payroll and pays it", payrollThen(Pay("exact"))},
	"payroll.status_update":      {"creates a payroll and pays it", payrollThen(Pay("exact"))},
	"user.payment_status_update": {"creates a payroll and pays it", payrollThen(Pay("exact"))},
	"payroll.funding_late": {"creates a payroll and pays it too late (advances the clock)",
		payrollThen(Pay("late"))},
	"payroll.quote_expired": {"creates a payroll and lets its quote expire (advances the clock)", payrollThen(outlive)},
	"payroll.quote_refreshed": {"creates a payroll, lets its quote expire and requests another (advances the clock)",
		payrollThen(outlive, refresh)},
	"payout.delayed": {"pays a payroll while the fee rate of the simulated chain is above the limit (for every company, " +
		"for some seconds)", delayPayout},
	"payout.returned": {"pays a payroll to a bank account, and lets the bank return the payment", returnPayout},
	"withdrawal.created": {"pays too much for a payroll, and withdraws the excess to the company's first destination " +
		"in bitcoin", withdraw},
	"withdrawal.status_update": {"pays too much for a payroll, and withdraws the excess to the company's first " +
		"destination in bitcoin", withdraw},
	"direct_debit_mandate.status_update": {"accepts a mandate for direct debits, and revokes it", acceptMandate},
	"direct_debit.created": {"accepts a mandate, debits the account, and revokes the mandate, which cancels the debit",
		debit},
	"direct_debit.status_update": {"accepts a mandate, debits the account, and revokes the mandate, which cancels the " +
		"debit", debit},
	"claim.created":       {"creates a claim", claimThen()},
	"claim.status_update": {"creates a claim and pays it", claimThen(payClaim("exact"))},
	"claim.quote_expired": {"creates a claim and lets its quote expire (advances the clock)", claimThen(outliveClaim)},
	"claim.quote_refreshed": {"creates a claim, lets its quote expire and requests another (advances the clock)",
		claimThen(outliveClaim, refreshClaim)},
	"wallet.created": {"requests a wallet in a currency that the sandbox does not have", requestWallet("XRP")},
	"wallet.deposit_update": {"pays to the company's bitcoin wallet, which it requests if there is none",
		payWallet},
	"wallet.status_update":     {"requests a wallet in a currency that the sandbox does not have", requestWallet("XRP")},
	"merchant.settings_update": {"saves the merchant settings unchanged", saveSettings},
	"merchant.branding_update": {"saves the branding unchanged", saveBranding},
	"payment_link.created":     {"creates a payment link and ends it", makePaymentLink},
	"payment_link.updated":     {"creates a payment link and ends it", makePaymentLink},
	"payer.created":            {"creates a user with a payer", makePayer},
	"payer.status_update":      {"creates a user with a payer, and deletes the payer", deletePayer},
	"refund.created": {"creates a claim, pays too much, and offers the excess as a refund",
		claimThen(payClaim("over"), offerRefund)},
	"refund.status_update": {"creates a claim, pays too much, and offers the refund twice, which ends the first offer",
		claimThen(payClaim("over"), offerRefund, offerRefund)},
	"settlement.created": {"creates a claim, pays it, and settles the proceeds (changes the merchant settings meanwhile)",
		settle},
	"transfer.received": {"opens a funding account for a user, and transfers money to it", transferIn},
	"transfer.status_update": {"creates a payroll that is funded by bank, transfers the money, and lets the bank " +
		"reverse it", reverseTransfer},
	"webhook.status_update": {"registers an endpoint, disables it and deletes it", disableEndpoint},
	"webhook.test":          {"sends a test event to the company's first endpoint", pingFirst},
}

// Run causes an event, waits until it is emitted, and returns it.
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

// poll calls ready until it returns true, and then returns its error. It returns an error when ctx is done. Errors
// that ready returns together with false are ignored.
func poll(ctx context.Context, ready func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ready()
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// awaitNext waits for the first event with a given name that follows the event with the ID after.
func (c *Client) awaitNext(ctx context.Context, after, name string) (event json.RawMessage, err error) {
	err = poll(ctx, func() (bool, error) {
		page, err := c.EventsAfter(ctx, after, name)
		if err != nil || len(page.Data) == 0 {
			return false, err
		}
		event = page.Data[0]
		return true, nil
	})
	return event, err
}

// create creates an object with a POST request, and returns the member of the response that id names.
func (c *Client) create(ctx context.Context, path, id string, body fields) (string, error) {
	var made map[string]json.RawMessage
	if err := c.Post(ctx, path, body, &made); err != nil {
		return "", err
	}
	var text string
	err := json.Unmarshal(made[id], &text)
	return text, err
}

// advance advances the clock of the sandbox.
func (c *Client) advance(ctx context.Context, by time.Duration) error {
	return c.Post(ctx, "/api/sandbox/clock", fields{"advance_seconds": int64(by / time.Second)}, nil)
}

func (c *Client) company(ctx context.Context) (string, error) {
	var company struct {
		ID string `json:"company_id"`
	}
	err := c.Get(ctx, "/api/company", &company)
	return company.ID, err
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
	id, err := c.create(ctx, "/api/company/"+company+"/recipients/create", "recipient_id", fields{
		"first_name": "Ada", "last_name": "Example", "country": country, "external_id": "trigger-" + uuid.NewString(),
	})
	return "/api/company/" + company + "/recipients/" + id, err
}

// makePayee creates a recipient with a destination and returns the recipient's ID.
func (c *Client) makePayee(ctx context.Context) (string, error) {
	path, err := c.MakeRecipient(ctx)
	if err != nil {
		return "", err
	}
	return path[strings.LastIndexByte(path, '/')+1:], c.GiveDestination(ctx, path)
}

// GiveDestination adds a new address on the simulated chain as the destination of the recipient at path.
func (c *Client) GiveDestination(ctx context.Context, path string) error {
	wallet, err := sandbox.NewWallet("regtest")
	if err != nil {
		return err
	}
	address, err := wallet.Deriver().Address(chain.External, 0)
	if err != nil {
		return err
	}
	return c.Post(ctx, path+"/distribution", fields{"symbol": "BTC", "distribution_data": fields{"address": address}}, nil)
}

// Made is a payroll that a trigger created.
type Made struct {
	PayrollID string `json:"payroll_id"`
	Quote     struct {
		From time.Time `json:"valid_from"`
		To   time.Time `json:"valid_to"`
	} `json:"quote"`
}

// then runs steps with an object that a trigger created.
func then[T any](ctx context.Context, c *Client, made T, steps []func(context.Context, *Client, T) error) error {
	for _, step := range steps {
		if err := step(ctx, c, made); err != nil {
			return err
		}
	}
	return nil
}

// payrollThen creates a payroll of one payee and runs the steps with it.
func payrollThen(steps ...func(context.Context, *Client, Made) error) step {
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
		made, err := c.makePayroll(ctx, payee, fields{"currency": "USD"})
		if err != nil {
			return err
		}
		return then(ctx, c, made, steps)
	}
}

// makePayroll creates a payroll that pays one payee.
func (c *Client) makePayroll(ctx context.Context, payee string, of fields) (made Made, err error) {
	of["to_pay"] = []fields{{"user_id": payee, "amount_fiat": json.Number("100.00")}}
	err = c.Post(ctx, "/api/company/payroll/create", of, &made)
	return made, err
}

// propose proposes a payroll with one payee, and cancels the proposal because the number of open proposals is
// limited.
func propose(ctx context.Context, c *Client) error {
	payee, err := c.makePayee(ctx)
	if err != nil {
		return err
	}
	id, err := c.create(ctx, "/api/company/proposals/payroll", "proposal_id", fields{"currency": "USD",
		"to_pay": []fields{{"user_id": payee, "amount_fiat": json.Number("100.00")}}})
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/company/proposals/cancel", fields{"proposal_id": id}, nil)
}

// createCompany creates a company through a platform and changes the platform's fee on the company's payrolls.
func createCompany(ctx context.Context, c *Client) error {
	id, err := c.create(ctx, "/api/platform/companies", "company_id", fields{"name": "Books Ltd", "country": "DE",
		"owner_email": "owner-" + uuid.NewString() + "@books.example"})
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/platform/companies/"+id+"/fee", fields{"fee_bps": 25}, nil)
}

// rename changes the reference of a payroll.
func rename(ctx context.Context, c *Client, p Made) error {
	change := fields{"payroll_id": p.PayrollID, "external_id": uuid.NewString()}
	return c.Post(ctx, "/api/company/payroll/update", change, nil)
}

// runSchedule creates a schedule that begins tomorrow, skips its first run and ends the schedule. It advances the
// clock by a second because the response contains the sandbox's time.
func runSchedule(ctx context.Context, c *Client) error {
	payee, err := c.makePayee(ctx)
	if err != nil {
		return err
	}
	var clock struct {
		Now time.Time `json:"now"`
	}
	if err := c.Post(ctx, "/api/sandbox/clock", fields{"advance_seconds": 1}, &clock); err != nil {
		return err
	}
	tomorrow := clock.Now.UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	id, err := c.create(ctx, "/api/company/payroll/schedule/create", "schedule_id", fields{
		"name": "Example", "frequency": "weekly", "start_date": tomorrow, "working_day": "none",
		"to_pay": []fields{{"user_id": payee, "amount_fiat": json.Number("100.00")}},
	})
	if err != nil {
		return err
	}
	if err := c.Post(ctx, "/api/company/payroll/schedule/run", fields{
		"schedule_id": id, "day": tomorrow, "status": "skipped"}, nil); err != nil {
		return err
	}
	return c.Post(ctx, "/api/company/payroll/schedule/update", fields{"schedule_id": id, "status": "ended"}, nil)
}

// Pay returns a step that pays a payroll with a deposit of a kind.
func Pay(kind string) func(context.Context, *Client, Made) error {
	return func(ctx context.Context, c *Client, p Made) error {
		return c.Post(ctx, "/api/sandbox/deposit", fields{"payroll_id": p.PayrollID, "kind": kind}, nil)
	}
}

// revertFunding funds a payroll and, after the service has counted the payment, removes the payment's block from the
// chain. If the block was removed too early, it starts again with another payroll.
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

// restore calls undo even if ctx has timed out, and adds its error to err.
func restore(ctx context.Context, err *error, undo func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	*err = errors.Join(*err, undo(ctx))
}

// delayedRate is a fee rate above the limit for payouts, in sat/vB.
const delayedRate = 1_000

// delayPayout raises the chain's fee rate until a payout is delayed, and then resets the rate.
func delayPayout(ctx context.Context, c *Client) (err error) {
	after, err := c.NewestEvent(ctx)
	if err != nil {
		return err
	}
	var fee struct {
		Before int64 `json:"previous_sat_per_vbyte"`
	}
	set := func(ctx context.Context, rate int64) error {
		return c.Post(ctx, "/api/sandbox/fee-rate", fields{"sat_per_vbyte": rate}, &fee)
	}
	if err := set(ctx, delayedRate); err != nil {
		return err
	}
	before := fee.Before
	defer restore(ctx, &err, func(ctx context.Context) error { return set(ctx, before) })
	if err := payrollThen(Pay("exact"))(ctx, c); err != nil {
		return err
	}
	_, err = c.awaitNext(ctx, after, "payout.delayed")
	return err
}

// requestWallet returns a step that requests a wallet in a currency. A rejected request can be repeated.
func requestWallet(currency string) step {
	return func(ctx context.Context, c *Client) error {
		return c.Post(ctx, "/api/wallets/request", fields{"currency": currency}, nil)
	}
}

// payWallet pays a small amount to the address of the company's bitcoin wallet.
func payWallet(ctx context.Context, c *Client) error {
	if err := requestWallet("BTC")(ctx, c); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		var have struct {
			Wallets []struct {
				ID       string `json:"wallet_id"`
				Currency string `json:"currency"`
				Address  string `json:"address"`
			} `json:"wallets"`
		}
		if err := c.Get(ctx, "/api/wallets", &have); err != nil {
			return true, err
		}
		for _, w := range have.Wallets {
			if w.Currency == "BTC" && w.Address != "" {
				return true, c.Post(ctx, "/api/sandbox/deposit",
					fields{"wallet_id": w.ID, "kind": "exact", "amount": json.Number("0.001")}, nil)
			}
		}
		return false, nil
	})
}

// withdraw waits until the balance is sufficient, and withdraws a small amount to a destination of the company.
func withdraw(ctx context.Context, c *Client) error {
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
		return errors.New("the company has no destination in bitcoin; its owner adds one at /wallets/destinations/new")
	}
	if err := payrollThen(Pay("over"))(ctx, c); err != nil {
		return err
	}
	return once(ctx, func() error {
		return c.Post(ctx, "/api/wallets/withdraw",
			fields{"destination_id": to.Destinations[i].ID, "amount": json.Number("0.0001")}, nil)
	}, "insufficient_balance")
}

func outlive(ctx context.Context, c *Client, p Made) error {
	if err := c.advance(ctx, p.Quote.To.Sub(p.Quote.From)+time.Second); err != nil {
		return err
	}
	return c.awaitEvent(ctx, "payroll.quote_expired", p.PayrollID)
}

// once calls do until it succeeds. It returns an error of do that contains none of the reasons.
func once(ctx context.Context, do func() error, reasons ...string) error {
	return poll(ctx, func() (bool, error) {
		err := do()
		return err == nil || !slices.ContainsFunc(reasons, func(reason string) bool {
			return strings.Contains(err.Error(), reason)
		}), err
	})
}

// awaitEvent waits for an event of a payroll or claim.
func (c *Client) awaitEvent(ctx context.Context, name, objectID string) error {
	return poll(ctx, func() (bool, error) {
		var page apiclient.EventPage
		err := c.Get(ctx, "/api/events?order=desc&limit=100&name="+name, &page)
		found := slices.ContainsFunc(page.Data, func(event json.RawMessage) bool {
			return bytes.Contains(event, []byte(objectID))
		})
		return found, err
	})
}

func refresh(ctx context.Context, c *Client, p Made) error {
	return c.Post(ctx, "/api/company/payroll/quote/refresh", fields{"payroll_id": p.PayrollID}, nil)
}

// Invite invites a worker and returns the email address.
func (c *Client) Invite(ctx context.Context) (email string, err error) {
	company, err := c.company(ctx)
	if err != nil {
		return "", err
	}
	email = "trigger-" + uuid.NewString() + "@sandbox.example"
	return email, c.Post(ctx, "/api/company/worker/invite",
		fields{"company_id": company, "email": email, "role": "contractor"}, nil)
}

func revokeInvitation(ctx context.Context, c *Client) error {
	email, err := c.Invite(ctx)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/company/worker/invite/revoke", fields{"email": email}, nil)
}

func outliveInvitation(ctx context.Context, c *Client) error {
	if _, err := c.Invite(ctx); err != nil {
		return err
	}
	return c.advance(ctx, 14*24*time.Hour+time.Minute)
}

var invitationLink = regexp.MustCompile(`/invitation/[A-Za-z0-9_-]+`)

// acceptInvitation opens the link in the mail and submits the form, as an invited person does.
func acceptInvitation(ctx context.Context, c *Client) error {
	email, err := c.Invite(ctx)
	if err != nil {
		return err
	}
	err = poll(ctx, func() (bool, error) {
		var mails struct {
			Data []struct{ To, Text string }
		}
		if err := c.Get(ctx, "/api/sandbox/mails", &mails); err != nil {
			return true, err
		}
		for _, m := range mails.Data {
			if link := invitationLink.FindString(m.Text); m.To == email && link != "" {
				return true, c.fillIn(ctx, link+"/accept", url.Values{
					"first_name": {"Ada"}, "last_name": {"Example"}, "date_of_birth": {"1990-01-31"}, "country": {"DE"},
					"street_address": {"Beispielweg 1"}, "city": {"Berlin"}, "zip": {"10115"},
					"new_password": {link}, // the link is secret, so it can be the password
				})
			}
		}
		return false, nil
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("%w; a sandbox with a mail server stores no mails", err)
	}
	return err
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
	return c.create(ctx, "/api/user/create", "user_id", fields{
		"email": "trigger-" + uuid.NewString() + "@sandbox.example", "phone_number": "+4930901820", "phone_country": "DE",
		"first_name": "Ada", "last_name": "Example", "date_of_birth": "1990-01-31", "street_address": "Beispielweg 1",
		"city": "Berlin", "state": "Berlin", "zip": "10115", "country": "DE", "product": "worker",
	})
}

// MakeVerified creates a verified user and returns the user's ID.
func (c *Client) MakeVerified(ctx context.Context) (string, error) {
	user, err := c.makeUser(ctx)
	if err != nil {
		return "", err
	}
	return user, c.Post(ctx, "/api/sandbox/kyc", fields{"user_id": user, "result": "approved"}, nil)
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
	return c.create(ctx, "/api/user/funding/account", "funding_account_id",
		fields{"user_id": user, "currency": "EUR", "terms_version": terms.Version})
}

func transferIn(ctx context.Context, c *Client) error {
	account, err := c.makeFunding(ctx)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/sandbox/bank-deposit", fields{"funding_account_id": account,
		"amount": json.Number("100.00"), "currency": "EUR", "reference": "trigger-" + uuid.NewString()}, nil)
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
		return c.Post(ctx, "/api/sandbox/kyb", fields{"company_id": company.ID, "result": result}, nil)
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
	if err := c.Post(ctx, "/api/companies", fields{
		"company_id": company.ID, "name": company.Name, "country": company.Country, "registration_number": "HRB 1",
		"incorporation_date": "2001-02-03", "street_address": "Beispielweg 1", "city": "Berlin",
	}, nil); err != nil {
		return err
	}
	owner, err := c.create(ctx, at+"/ubo", "ubo_id", fields{"first_name": "Ada", "last_name": "Example",
		"date_of_birth": "1970-01-31", "country": "DE", "ownership_percentage": 60})
	if err != nil && company.State == "" {
		return err
	}
	documents := []fields{{"doc_type": "certificate_of_incorporation"}, {"doc_type": "shareholder_register"}}
	if owner != "" { // otherwise the owner was added earlier
		documents = append(documents, fields{"doc_type": "passport", "category": "front", "ubo_id": owner})
	}
	for _, document := range documents {
		document["issuing_country"], document["base64_image"] = company.Country, onePixel
		if err := c.Post(ctx, at+"/documents", document, nil); err != nil {
			return err
		}
	}
	return c.Post(ctx, at+"/kyb", fields{}, nil)
}

// withPayer creates a user with a payer, and calls do with the IDs of the user and the payer.
func withPayer(ctx context.Context, c *Client, do func(user, payer string) error) error {
	user, err := c.makeUser(ctx)
	if err != nil {
		return err
	}
	payer, err := c.create(ctx, "/api/user/payer/create", "external_company_id", fields{
		"user_id": user, "name": "Sandbox Client", "company_type": "client", "payroll_invoice_currency": "USD",
	})
	if err != nil {
		return err
	}
	return do(user, payer)
}

func makePayer(ctx context.Context, c *Client) error {
	return withPayer(ctx, c, func(string, string) error { return nil })
}

func deletePayer(ctx context.Context, c *Client) error {
	return withPayer(ctx, c, func(user, payer string) error {
		return c.Post(ctx, "/api/user/payer/delete", fields{"user_id": user, "external_company_id": payer}, nil)
	})
}

// writeInvoice returns a step that creates an invoice of a user. The invoice is sent at once, or first stored as a
// draft.
func writeInvoice(draft bool) step {
	return func(ctx context.Context, c *Client) error {
		return withPayer(ctx, c, func(user, payer string) error {
			invoice, err := c.create(ctx, "/api/user/invoice/create", "invoice_id", fields{
				"user_id": user, "external_company_id": payer, "draft": draft,
				"items": []fields{{"description": "Work", "unit_price": 100}},
			})
			if err != nil || !draft {
				return err
			}
			return c.Post(ctx, "/api/user/invoice/send", fields{"user_id": user, "invoice_id": invoice}, nil)
		})
	}
}

func disableEndpoint(ctx context.Context, c *Client) error {
	endpoint, err := c.create(ctx, "/api/webhooks", "webhook_id", fields{"url": "http://127.0.0.1:9/",
		"description": "made by stipend trigger", "events": []string{"webhook.test"}})
	if err != nil {
		return err
	}
	at := "/api/webhooks/" + endpoint
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
