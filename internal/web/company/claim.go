package company

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/withdrawal"
)

type claimPage struct {
	Claim                 claim.Detail
	Path, Checkout        string
	Amount, Due, Received string
	Refunded, Earned      string
	Refundable            []string
	Simulated             []ui.Field // in a sandbox, for a payment that is simulated
	Created, Ends         string
	Items, Payments       ui.Table
	Refunds               []refundRow
	Steps                 []timelineStep
	Part                  []ui.Field // for a refund of a paid claim; empty if not possible
	Seen                  int        // for the form: one more than the number of refunds
	Exception             string     // what was unusual about the payment; "" for nothing
	Offers                string     // key of the button that refunds the payer's own money; "" for none
	Renews                string     // key of the button that sets a new price; "" for none
	Cancels               bool
	Link                  ui.Cell // payment link that created the claim
}

// refundRow is a refund with what the user can do with it.
type refundRow struct {
	ID, Path, Amount, Value, Cost, TxHash, Created string
	State                                          ui.Cell
	Explorer                                       []ui.Cell
	Approval                                       approvalStatus
	Cancels                                        bool
}

// showClaim renders a claim with its payments, refunds and timeline.
func showClaim(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	d, err := c.Claims.Get(ctx, tx, by, "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	manages := c.Session.Manages()
	p := claimPage{
		Claim: d, Path: claimPath(d.ID), Checkout: c.Claims.CheckoutURL(d.ID), Amount: c.FormatMoney(d.Amount),
		Received: c.FormatMoney(d.Received()), Earned: c.FormatMoney(d.Earned()), Created: c.FormatTime(d.CreatedAt),
		Items: ui.Table{Caption: c.Text("checkout.items"),
			Heads: c.Columns("invoice.line", "invoice.quantity#", "payment.amount#")},
		Payments: ui.Table{Caption: c.Text("checkout.payments"), Empty: c.Empty("claim.payments.none"),
			Heads: c.Columns("deposits.seen", "payment.amount#", "payroll.status", "deposits.tx")},
		Cancels: manages && (d.State == claim.AwaitingPayment || d.State == claim.Expired),
	}
	switch {
	case !manages || d.Refunding:
	case d.State == claim.PaidLate || d.State == claim.Invalid:
		p.Renews = "claim.renew"
	case d.State == claim.Expired || d.State == claim.Underpaid:
		p.Renews = "claim.requote"
	}
	if d.LinkID != "" {
		p.Link = c.LinkCell(d.LinkID, linksPath+"/"+d.LinkID)
	}
	if d.Due.Sign() > 0 {
		p.Due = c.FormatMoney(d.Due)
	}
	if r := d.RefundedTotal(); r.Sign() > 0 {
		p.Refunded = c.FormatMoney(r)
	}
	owed := slices.DeleteFunc(append([]money.Amount{d.Refundable()}, d.OtherRefundable()...),
		func(a money.Amount) bool { return a.Sign() <= 0 })
	for _, a := range owed {
		p.Refundable = append(p.Refundable, c.FormatMoney(a))
	}
	if c.CanSimulate() && manages {
		p.Simulated = simulatedPayments(c, d)
	}
	if d.Exception != claim.None {
		p.Exception = c.Text("claim.exception." + string(d.Exception))
	}
	if !d.ExpiresAt.IsZero() {
		p.Ends = c.FormatTime(d.ExpiresAt)
	}
	switch {
	case !manages:
	case len(owed) > 0:
		p.Offers = "claim.offer.excess"
	case d.State == claim.PaidLate || d.State == claim.Underpaid:
		p.Offers = "claim.offer.all"
	}
	for _, one := range d.Items {
		p.Items.Rows = append(p.Items.Rows, []ui.Cell{{Text: one.Description},
			{Text: c.FormatCount(one.Quantity), Kind: "number"}, {Text: c.FormatNumber(one.Amount), Kind: "number"}})
	}
	for _, one := range d.Payments {
		state := c.StateCell("deposit.state", string(one.State))
		if one.State.Live() && one.Wanted > 0 { // a payment over Lightning has no confirmations
			state.Lines = []ui.Cell{{Text: c.Text("deposits.of", c.FormatCount(min(one.Confirmations, one.Wanted)),
				c.FormatCount(one.Wanted))}}
		}
		paid := ui.Cell{Text: one.TxID, Kind: "id", Copy: c.Text("checkout.copy.tx"), Copied: c.Text("checkout.copied.tx"),
			ID: "copy-" + one.ID}
		if one.Chain != lightning.Chain {
			paid.Lines = c.ExplorerLines(explorerNetwork(c, one.Amount.Asset(), one.Chain), one.TxID)
		}
		p.Payments.Rows = append(p.Payments.Rows, []ui.Cell{c.TimeCell(one.FirstSeen), c.AmountCell(one.Amount), state, paid})
	}
	if err := p.addRefunds(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	v := ui.View{Template: "claim", Title: claimName(c, d.Claim), State: claimState(c, d.Claim), Crumbs: claimCrumbs(c),
		Data: p}
	if v.Title != d.Description {
		v.Lead = d.Description
	}
	return v, nil
}

// explorerNetwork returns the network of a transaction that moved an asset on a chain.
func explorerNetwork(c *ui.Request, asset money.Asset, chain string) string {
	if asset == money.BTC {
		return c.Claims.Network
	}
	return chain
}

// simulatedPayments returns the fields of a payment that the sandbox simulates.
func simulatedPayments(c *ui.Request, d claim.Detail) []ui.Field {
	option := ui.Field{Name: "option", Label: c.Text("simulate.option"), Type: "select"}
	for _, o := range d.Offers {
		if !o.Lightning() {
			option.Options = append(option.Options, ui.Option{Value: string(o.Amount.Asset()) + "/" + o.Network,
				Label: c.Text("funding.on", string(o.Amount.Asset()), networkName(o.Network))})
		}
		if o.Lightning() {
			option.Options = append(option.Options, ui.Option{Value: string(money.BTC) + "/" + lightning.Chain,
				Label: "Lightning"})
		}
	}
	if len(option.Options) == 0 {
		option.Options = []ui.Option{{Value: string(d.Funding) + "/", Label: string(d.Funding)}}
	}
	kind := ui.Field{Name: "kind", Type: "select", Label: c.Text("simulate.kind")}
	for _, name := range []string{"exact", "under", "over", "late", "replaced", "reorged"} {
		kind.Options = append(kind.Options, ui.Option{Value: name, Label: c.Text("simulate." + name)})
	}
	return []ui.Field{c.Field(option), c.Field(kind)}
}

// simulateClaimDeposit pays a claim on a simulated chain.
func simulateClaimDeposit(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	currency, network, _ := strings.Cut(c.Form.Get("option"), "/")
	_, err := c.Sandbox.Deposit(ctx, c.Session.Principal(), id, currency, network, c.Form.Get("kind"), "")
	return ui.View{Redirect: claimPath(id)}, ui.FormConflict(err)
}

// addRefunds adds the refunds, the form for a further one, and the timeline.
func (p *claimPage) addRefunds(ctx context.Context, c *ui.Request, tx *db.Tx) error {
	d := p.Claim
	all, err := c.Claims.Refunds(ctx, tx, c.Session.Principal(), "", d.ID)
	if err != nil {
		return err
	}
	p.Seen = len(all) + 1
	if p.Steps, err = claimSteps(ctx, c, tx, d.CompanyID, d.ID, "claim.state"); err != nil {
		return err
	}
	left := d.Amount
	for _, r := range all {
		row, err := newRefundRow(ctx, c, tx, r)
		if err != nil {
			return err
		}
		if r.Network != lightning.Chain {
			row.Explorer = c.ExplorerLines(explorerNetwork(c, r.Amount.Asset(), r.Network), r.TxHash)
		}
		p.Refunds = append(p.Refunds, row)
		if r.OfMerchant() && r.State != claim.RefundWithdrawn {
			if left, err = left.Sub(r.Value); err != nil {
				return err
			}
		}
		steps, err := claimSteps(ctx, c, tx, d.CompanyID, r.ID, "refund.state")
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, steps...)
	}
	slices.SortStableFunc(p.Steps, func(a, b timelineStep) int { return b.at.Compare(a.at) })
	if d.State == claim.Paid && d.Earned().Sign() > 0 && left.Sign() > 0 && c.Session.Manages() {
		p.Part = refundFields(c, d.Claim, left)
	}
	return nil
}

// claimSteps returns the timeline of a claim or refund, the newest first.
func claimSteps(ctx context.Context, c *ui.Request, tx *db.Tx, companyID, id, states string) (
	all []timelineStep, err error) {
	changes, err := db.Changes(ctx, tx, companyID, id)
	for _, h := range changes {
		if h.From == h.To {
			continue
		}
		at := db.Time(h.At)
		state := c.StateCell(states, h.To)
		text := state.Text
		if states != "claim.state" {
			text = c.Text("claim.refund") + ": " + text
		}
		all = append(all, timelineStep{Tone: state.Tone, Text: text, ISO: ui.FormatTimestamp(at), At: c.FormatTime(at),
			at: at})
	}
	slices.Reverse(all)
	return all, err
}

func newRefundRow(ctx context.Context, c *ui.Request, tx *db.Tx, r claim.Refund) (refundRow, error) {
	row := refundRow{ID: r.ID, Path: claimPath(r.ClaimID) + "/refunds/" + r.ID, Amount: c.FormatMoney(r.Amount),
		TxHash: r.TxHash, Created: c.FormatTime(r.CreatedAt), State: c.StateCell("refund.state", string(r.State))}
	if !r.OfMerchant() {
		return row, nil
	}
	row.Value, row.Cost = c.FormatMoney(r.Value), c.FormatMoney(r.Cost)
	row.Cancels = c.Session.Manages() && (r.State == claim.RefundOffered || r.State == claim.RefundAwaiting)
	if r.State != claim.RefundAwaiting {
		return row, nil
	}
	progress, err := r.Approvals(ctx, tx)
	if err != nil {
		return row, err
	}
	row.Approval = approvalStatus{Waits: true, Decides: c.Session.Administers(), Status: c.Text("approval.status",
		c.FormatCount(int64(len(progress.By))), c.FormatCount(progress.Needed))}
	if err := row.Approval.mayApprove(ctx, c, tx, r.CreatedBy, progress.By); err != nil {
		return row, err
	}
	row.Approval.Names, err = memberNames(ctx, c, tx, progress.By...)
	return row, err
}

// refundFields returns the fields of a refund of a paid claim.
func refundFields(c *ui.Request, d claim.Claim, left money.Amount) []ui.Field {
	c.Labels = withLabel(c.Labels, "amount", c.Text("claim.refund.amount"))
	amount := ui.Field{Name: "amount", Label: c.Text("claim.refund.amount"), Value: left.String(), Required: true,
		MaxLength: 40, InputMode: "decimal"}
	currency := ui.Field{Name: "currency", Type: "select", Options: []ui.Option{
		{Value: string(d.Amount.Asset()), Label: string(d.Amount.Asset())}}}
	if d.Funding != d.Amount.Asset() {
		currency.Options = append(currency.Options, ui.Option{Value: string(d.Funding), Label: string(d.Funding)})
	}
	return []ui.Field{c.Field(amount), c.Field(currency),
		c.Field(ui.Field{Name: "rate", Label: c.Text("claim.refund.rate"), Type: "select", Options: []ui.Option{
			{Value: string(claim.CurrentRate), Label: c.Text("claim.rate.current")},
			{Value: string(claim.PaidRate), Label: c.Text("claim.rate.paid")}}}),
		c.Field(ui.Field{Name: "source", Label: c.Text("claim.refund.source"), Type: "select", Options: []ui.Option{
			{Value: string(claim.FromAny), Label: c.Text("claim.source.any")},
			{Value: string(claim.FromClaims), Label: c.Text("claim.source.claims")},
			{Value: string(claim.FromBalance), Label: c.Text("claim.source.balance")}}}),
	}
}

// postedPart returns the refund in the posted form.
func postedPart(c *ui.Request) claim.PartParams {
	seen, err := strconv.Atoi(c.Form.Get("seen"))
	if err != nil || seen < 1 {
		seen = 1
	}
	return claim.PartParams{ClaimID: c.HTTP.PathValue("id"),
		AmountText: c.PlainAmount(c.Form.Get("amount"), money.Asset(c.Form.Get("currency"))),
		Currency:   c.Form.Get("currency"), Rate: claim.RefundRate(c.Form.Get("rate")),
		Source: claim.Source(c.Form.Get("source")), Seen: seen}
}

type refundCheck struct {
	Path, Gets, Value, Cost string
	Posted                  [][2]string // of the form, to be posted again
	Approval                bool
}

// checkRefund shows a refund of a paid claim for confirmation.
func checkRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	posted := postedPart(c)
	r, err := c.Claims.CheckPart(ctx, tx, c.Session.Principal(), posted)
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	p := refundCheck{Path: claimPath(posted.ClaimID), Gets: c.FormatMoney(r.Amount), Value: c.FormatMoney(r.Value),
		Cost: c.FormatMoney(r.Cost), Approval: r.State == claim.RefundAwaiting}
	for _, name := range []string{"amount", "currency", "rate", "source", "seen"} {
		p.Posted = append(p.Posted, [2]string{name, c.Form.Get(name)})
	}
	return ui.View{Template: "claim_refund", Title: c.Text("claim.refund.check"), Crumbs: claimCrumbs(c), Data: p}, nil
}

// createRefund refunds a part of a paid claim, and shows the payer's link once.
func createRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, token, err := c.Claims.RefundPart(ctx, tx, c.Session.Principal(), postedPart(c))
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	return ShowRefundLink(c, claimPath(r.ClaimID), r, c.Claims.RefundURL(r.ClaimID, token)), nil
}

// ShowRefundLink shows the payer's link once, with the path that leads back, and says whether the payer was mailed it.
func ShowRefundLink(c *ui.Request, back string, r claim.Refund, link string) ui.View {
	view := showSecret(c, back, "claim.refund.link", link)
	p, _ := view.Data.(secretPage)
	p.Lead = c.Text("claim.refund.once")
	switch {
	case r.State == claim.RefundAwaiting:
		p.Note = c.Text("claim.refund.waits")
	case r.MailedTo != "":
		p.Note = c.Text("claim.refund.mailed", r.MailedTo)
	default:
		p.Note = c.Text("claim.refund.give")
	}
	view.Data = p
	return view
}

// offerRefund offers the payer's own money, and shows the link once.
func offerRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, token, err := c.Claims.Refund(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	return ShowRefundLink(c, claimPath(r.ClaimID), r, c.Claims.RefundURL(r.ClaimID, token)), nil
}

func backToClaim(c *ui.Request, err error) (ui.View, error) {
	return ui.View{Redirect: claimPath(c.HTTP.PathValue("id"))}, ui.FormConflict(err)
}

// approveRefund records the user's approval of a refund.
func approveRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return backToClaim(c, c.Claims.ApproveRefund(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"),
		c.HTTP.PathValue("refund")))
}

// declineRefund declines a refund that needs approval.
func declineRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return backToClaim(c, c.Claims.DeclineRefund(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"),
		c.HTTP.PathValue("refund")))
}

// cancelRefund cancels a refund that the payer has not accepted.
func cancelRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Claims.CancelRefund(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"), c.HTTP.PathValue("refund"))
	return backToClaim(c, err)
}

// renewClaim gives a claim a new quote, and accepts money that arrived late at its rate.
func renewClaim(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Claims.Refresh(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	return backToClaim(c, err)
}

// cancelClaim cancels a claim.
func cancelClaim(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Claims.Cancel(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	return backToClaim(c, err)
}

const claimSettingsPath = claimsPath + "/settings"

// showClaimSettings renders the merchant settings.
func showClaimSettings(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	s, err := claim.SettingsOf(ctx, tx, c.Session.Principal(), "")
	if err != nil {
		return ui.View{}, err
	}
	owned, err := withdrawal.Destinations(ctx, tx, c.Session.Principal(), "")
	if err != nil {
		return ui.View{}, err
	}
	field := func(name, value string, options ...ui.Option) ui.Field {
		label := c.Text("claims.setting." + name)
		c.Labels = withLabel(c.Labels, name, label)
		f := ui.Field{Name: name, Label: label, Value: value, Options: options, MaxLength: 254}
		if len(options) > 0 {
			f.Type = "select"
		}
		if key := "claims.setting." + name + ".hint"; c.HasText(key) {
			f.Hint = c.Text(key)
		}
		return c.Field(f)
	}
	choice := func(name string, values ...string) (all []ui.Option) {
		for _, v := range values {
			all = append(all, ui.Option{Value: v, Label: c.Text("claims.setting." + name + "." + cmp.Or(v, "none"))})
		}
		return all
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	confirmations := make([]ui.Option, 0, 4)
	for _, n := range []int64{0, 1, 2, 6} {
		confirmations = append(confirmations, ui.Option{Value: number(n), Label: c.FormatCount(n)})
	}
	into := []ui.Option{{Label: c.Text("claims.setting.settlement_convert_to.none")}}
	for _, a := range money.All() {
		if !a.IsCrypto() {
			into = append(into, ui.Option{Value: string(a), Label: string(a)})
		}
	}
	days := slices.Concat(claim.Days[1:], claim.Days[:1]) // Monday first
	to := []ui.Option{{Label: c.Text("settlement.balance")}}
	for _, d := range owned {
		to = append(to, ui.Option{Value: d.ID, Label: d.Hint()})
	}
	origins := field("origins", strings.Join(s.Origins, "\n"))
	origins.Type = "textarea"
	return ui.View{Template: "claim_form", Title: c.Text("claims.settings"), Lead: c.Text("claims.settings.lead"),
		Crumbs: claimCrumbs(c), Data: claimForm{
			Snippets: []ui.Snippet{c.Snippet("copy-embed", "claims.embed",
				c.CheckoutCode(`<a href="CHECKOUT_URL" data-stipend="inline">`+c.Text("claims.embed.pay")+`</a>`))},
			Path: claimSettingsPath, Send: c.Text("claims.settings.save"),
			Groups: []fieldGroup{{Title: c.Text("claims.group.accept"), Fields: []ui.Field{
				field("confirmations", number(s.Confirmations), confirmations...), field("tolerance_bps",
					c.FormatNumber(money.New(money.USD, s.ToleranceBps).String())), // hundredths of a percent
				field("late_policy", string(s.Late), choice("late_policy", "manual", "requote", "refund")...),
				field("late_grace_seconds", number(s.GraceSeconds)),
			}}, {Title: c.Text("claims.group.settle"), Fields: []ui.Field{
				field("settlement_currency", s.SettleIn,
					choice("settlement_currency", "", claim.SettleInCoin, "BTC", "USDC", "USDT")...),
				field("settlement_schedule", string(s.Schedule), choice("settlement_schedule", "manual", "daily", "weekly")...),
				field("settlement_time_zone", s.TimeZone),
				field("settlement_day", claim.Days[s.Day], choice("settlement_day", days...)...),
				field("settlement_convert_to", string(s.ConvertTo), into...),
				field("settlement_destination_id", s.DestinationID, to...),
			}}, {Title: c.Text("claims.group.site"), Fields: []ui.Field{origins}}}}}, nil
}

// changeClaimSettings stores the posted merchant settings.
func changeClaimSettings(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	text := func(name string) *string {
		v := strings.TrimSpace(c.Form.Get(name))
		return &v
	}
	number := func(name string) *int64 {
		n, err := strconv.ParseInt(*text(name), 10, 64)
		if err != nil {
			n = -1 // refused, as any number out of range
		}
		return &n
	}
	tolerance := int64(-1)
	percent, err := money.Parse(money.USD, c.PlainAmount(*text("tolerance_bps"), money.USD)) // it has two decimals, too
	if err == nil {
		tolerance = percent.Units()
	}
	_, err = c.Claims.ChangeSettings(ctx, tx, c.Session.Principal(), "", claim.Change{
		ToleranceBps: &tolerance, Confirmations: number("confirmations"),
		GraceSeconds: number("late_grace_seconds"), Late: text("late_policy"), SettleIn: text("settlement_currency"),
		Schedule: text("settlement_schedule"), TimeZone: text("settlement_time_zone"), Day: text("settlement_day"),
		ConvertTo: text("settlement_convert_to"), DestinationID: text("settlement_destination_id"),
		Origins: append([]string{}, strings.Fields(c.Form.Get("origins"))...),
	})
	return ui.View{Redirect: claimSettingsPath}, ui.FormConflict(err)
}
