package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/screening"
)

// The house's own pages stand below one path, with a cookie and a session of their own. A company's session is nobody here.
const (
	operationsPath       = "/operations"
	operationsSignInPath = operationsPath + "/sign-in"
	jobsPath             = operationsPath + "/jobs"
)

func (s *server) operatorCookieName() string {
	return strings.Replace(s.cookieName(), "session", "operator", 1)
}

// operatorToken is what the browser of an operator holds, "" without.
func (c *call) operatorToken() string {
	if k, err := c.r.Cookie(c.operatorCookieName()); err == nil {
		return k.Value
	}
	return ""
}

// operatorCookie goes to the house's own pages only, and comes with no link from elsewhere.
func (s *server) operatorCookie(token string) *http.Cookie {
	k := s.cookie(token) //nolint:gosec // Secure and HttpOnly as that one is
	k.Name, k.SameSite = s.operatorCookieName(), http.SameSiteStrictMode
	if token != "" {
		k.MaxAge = int(backoffice.Life.Seconds())
	}
	return k
}

// operates runs a handler for an operator. Whoever is none, or signed in too long ago to act, is sent to sign in.
func (c *call) operates(ctx context.Context, tx *db.Tx, rt route, h handler) (view, error) {
	s, err := backoffice.Find(ctx, tx, c.operatorToken())
	if errors.Is(err, apierr.NotFoundErr) {
		return view{redirect: operationsSignInPath}, nil
	}
	if err != nil {
		return view{}, err
	}
	c.session, c.operator, c.now = nil, &s, tx.Now()
	switch {
	case c.r.PostForm != nil && !c.proven():
		return view{}, errFormToken
	case rt.factor == freshFactor && !s.Acts(tx.Now()):
		return view{redirect: operationsSignInPath}, nil
	}
	return h(ctx, tx, c)
}

func (c *call) keepOperatorAlive() {
	if c.operator == nil || !c.operator.NeedsTouch(c.now) {
		return
	}
	if err := c.DB.Write(c.r.Context(), func(ctx context.Context, tx *db.Tx) error { return backoffice.Touch(ctx, tx, *c.operator) }); err != nil {
		c.Log.Warn("an operator's session's use was not noted", slog.String("request_id", c.id), slog.String("error", err.Error()))
	}
}

// showOperatorSignIn asks an operator for everything at once.
func showOperatorSignIn(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return view{page: "operator_sign_in", title: c.text("operations.sign_in"), data: []field{
		c.field(field{Name: "email", Type: "email", Autocomplete: "username", Required: true, Most: 254}),
		c.field(field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: 1024}),
		c.field(field{Name: "code", Autocomplete: "one-time-code", Required: true, Most: 10}),
	}}, nil
}

// signInOperator takes password and code together. What of it was wrong is not told.
func signInOperator(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	email, password, code := c.form.Get("email"), c.form.Get("password"), c.form.Get("code")
	if email == "" || password == "" || code == "" {
		return view{}, errOperator.At("body", "")
	}
	var o backoffice.Operator
	allowed := false
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		o, allowed, err = backoffice.Attempt(ctx, tx, email, c.from())
		return err
	}); err != nil {
		return view{}, err
	}
	if !allowed {
		return view{}, errAttempts.At("body", "")
	}
	right := false
	if err := hashed(ctx, c.hashingOfHouse, func() (err error) {
		right, err = o.CheckPassword(password)
		return err
	}); err != nil {
		return view{}, err
	}
	token := ""
	if right {
		if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			token, right, err = c.Operators.SignIn(ctx, tx, o, code, c.Now(), c.from())
			return err
		}); err != nil {
			return view{}, err
		}
	}
	if !right {
		return view{}, errOperator.At("body", "")
	}
	return view{redirect: operationsPath, cookie: c.operatorCookie(token)}, nil
}

var errOperator = apierr.New(apierr.Invalid, "operator_sign_in_failed", "Something of this is wrong, or the code was used already.")

func signOutOperator(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: operationsSignInPath, cookie: c.operatorCookie("")}, backoffice.End(ctx, tx, c.operatorToken())
}

type operationsPage struct {
	Name, Why string // why payouts are paused, "" while they are not
	Asked     bool   // somebody asks that they go on
	Requests  []requestShown
	Alarms    []string // of the chains
	Queues    table
	Frozen    []identity.Company
	Limit     string
	Acts      bool
}

type requestShown struct {
	ID, What, Company, Object, Target, Reason, By, At string
	Own                                               bool
}

// showOperations is how the house stands: the switch, what others ask for, how long the queues are.
func showOperations(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p := operationsPage{Name: c.operator.Operator.Name, Limit: c.money(c.Operators.Limit), Acts: c.operator.Acts(c.now)}
	var err error
	if p.Why, err = payout.Paused(ctx, tx); err != nil {
		return view{}, err
	}
	if p.Alarms, err = chainAlarms(ctx, tx, c); err != nil {
		return view{}, err
	}
	open, err := backoffice.Requests(ctx, tx)
	if err != nil {
		return view{}, err
	}
	for _, r := range open {
		p.Asked = p.Asked || r.Action == backoffice.Resume
		p.Requests = append(p.Requests, requestShown{
			ID: r.ID, What: c.word("operations.act", r.Action), Company: r.CompanyID, Object: r.ObjectID, Target: r.Target, Reason: r.Reason, By: r.Name, At: c.instant(r.AskedAt),
			Own: r.AskedBy == c.operator.Operator.ID,
		})
	}
	if p.Frozen, err = identity.FrozenCompanies(ctx, tx); err != nil {
		return view{}, err
	}
	p.Queues = table{Caption: c.text("operations.queues"), Heads: c.heads("operations.queue", "operations.count#", "operations.oldest")}
	for _, name := range backoffice.Queues {
		items, err := backoffice.Queue(ctx, tx, name)
		if err != nil {
			return view{}, err
		}
		count, oldest := c.count(int64(len(items))), cell{}
		if len(items) >= backoffice.MostItems {
			count = "≥ " + count
		}
		if len(items) > 0 {
			oldest = c.at(items[0].Since)
		}
		p.Queues.Rows = append(p.Queues.Rows, []cell{c.link(c.text("operations.queue."+name), operationsPath+"/queues/"+name), {Text: count, Kind: "number", Warn: len(items) > 0}, oldest})
	}
	return view{page: "operations", title: c.text("operations.title"), wide: true, data: p}, nil
}

// chainAlarms is what is wrong with the chains that are followed.
func chainAlarms(ctx context.Context, tx *db.Tx, c *call) (all []string, err error) {
	standings, err := chain.Standings(ctx, tx)
	if err != nil {
		return nil, err
	}
	followed := []string{c.Payroll.ChainName}
	for _, n := range c.Payroll.Accounts.Networks {
		followed = append(followed, n.Name)
	}
	for _, name := range followed {
		for _, a := range standings[name].Alarms {
			all = append(all, c.text("operations.chain."+string(a), name))
		}
	}
	return all, nil
}

// pausePayouts stops all payouts.
func pausePayouts(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: operationsPath}, c.Operators.Pause(ctx, tx, *c.operator, c.form.Get("reason"))
}

// freezeCompany stops a company.
func freezeCompany(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	err := c.Operators.Freeze(ctx, tx, *c.operator, c.form.Get("company_id"), c.form.Get("reason"))
	return view{redirect: operationsPath}, atForm(err)
}

// askOperator asks another operator for something.
func askOperator(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	err := c.Operators.Ask(ctx, tx, *c.operator, c.form.Get("action"), c.form.Get("company_id"), c.form.Get("object_id"), c.form.Get("reason"))
	return view{redirect: operationsPath}, atForm(err)
}

// answerOperator agrees to what another operator asks for, or drops it.
func answerOperator(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	err := c.Operators.Answer(ctx, tx, *c.operator, c.r.PathValue("id"), c.form.Get("answer") == "yes", c.form.Get("reason"))
	return view{redirect: operationsPath}, atForm(err)
}

type queuePage struct {
	Name  string
	Items table
	Do    []itemShown // those that something can be done about
	Acts  bool
}

type itemShown struct {
	Company, Object, Of, What, Reason, Amount, Since string
	Release, Hit, Transfer, Deposit, Debt            bool
}

// showQueue is one queue.
func showQueue(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	name := cmp.Or(c.r.PathValue("queue"), c.form.Get("queue"))
	items, err := backoffice.Queue(ctx, tx, name)
	if err != nil {
		return view{}, err
	}
	p := queuePage{Name: name, Acts: c.operator.Acts(c.now), Items: table{Caption: c.text("operations.queue." + name), Empty: c.text("operations.empty"),
		Heads: c.heads("operations.since", "operations.object", "operations.company", "payment.amount#", "step.why")}}
	for _, i := range items {
		why := cell{Text: c.word("reason", i.Reason)}
		if i.State != "" {
			why.Lines = append(why.Lines, cell{Text: c.word("output.state", i.State)})
		}
		if i.Detail != "" {
			why.Lines = append(why.Lines, code(i.Detail))
		}
		object := code(i.ObjectID)
		if i.OfID != "" {
			object.Lines = []cell{code(i.OfID)}
		}
		amount := cell{Kind: "number"}
		if i.Amount.Asset() != "" {
			amount = c.amount(i.Amount)
		}
		p.Items.Rows = append(p.Items.Rows, []cell{c.at(i.Since), object, code(i.CompanyID), amount, why})
		transfer := name == backoffice.Suspense && strings.HasPrefix(i.ObjectID, "trf_")
		deposit := name == backoffice.Suspense && strings.HasPrefix(i.ObjectID, "dep_")
		debt := name == backoffice.Debts && i.Amount.Sign() > 0
		if name == backoffice.Hits || name == backoffice.Releases || transfer || deposit || debt {
			p.Do = append(p.Do, itemShown{
				Company: i.CompanyID, Object: i.ObjectID, Of: i.OfID, What: i.Detail, Reason: i.Reason, Amount: c.money(i.Amount), Since: c.instant(i.Since),
				Release: name == backoffice.Releases, Hit: name == backoffice.Hits, Transfer: transfer, Deposit: deposit, Debt: debt,
			})
		}
	}
	return view{page: "operations_queue", title: c.text("operations.queue." + name), wide: true, data: p}, nil
}

// decideHit clears or confirms what screening found.
func decideHit(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	to := screening.Cleared
	if c.form.Get("answer") != "clear" {
		to = screening.Confirmed
	}
	err := c.Operators.DecideHit(ctx, tx, *c.operator, c.r.PathValue("id"), to, c.form.Get("reason"))
	return view{redirect: operationsPath + "/queues/" + backoffice.Hits}, atForm(err)
}

// decideTransfer credits a transfer that nobody was found for, or has the bank send it back.
func decideTransfer(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	to := ""
	if c.form.Get("answer") != "back" {
		if to = strings.TrimSpace(c.form.Get("to")); to == "" {
			return view{}, errNoTarget.At("body", "")
		}
	}
	err := c.Operators.DecideTransfer(ctx, tx, *c.operator, c.r.PathValue("id"), to, c.form.Get("reason"))
	return view{redirect: operationsPath + "/queues/" + backoffice.Suspense}, atForm(err)
}

// decideDeposit credits coins that nobody expected, or sends them back.
func decideDeposit(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	to := strings.TrimSpace(c.form.Get("to"))
	if to == "" {
		return view{}, errNoTarget.At("body", "")
	}
	action := backoffice.CreditDeposit
	if c.form.Get("answer") == "back" {
		action = backoffice.ReturnDeposit
	}
	err := c.Operators.DecideDeposit(ctx, tx, *c.operator, action, c.form.Get("company_id"), c.r.PathValue("id"), to, c.form.Get("reason"))
	return view{redirect: operationsPath + "/queues/" + backoffice.Suspense}, atForm(err)
}

// writeOffDebt asks another operator to agree that what a company owes is written off.
func writeOffDebt(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	err := c.Operators.AskWriteOff(ctx, tx, *c.operator, c.form.Get("company_id"), c.form.Get("object_id"), c.form.Get("amount"), c.form.Get("reason"))
	return view{redirect: operationsPath}, atForm(err)
}

var errNoTarget = apierr.New(apierr.Invalid, "target_required", "Name whose the money is, or what it pays.")

// showPosition is the hedging report: what the house owns of each asset, and what to buy or sell.
func showPosition(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	report, err := c.Payroll.FX.Hedging(ctx, tx)
	if err != nil {
		return view{}, err
	}
	waiting, err := payroll.WaitingForExchange(ctx, tx)
	if err != nil {
		return view{}, err
	}
	p := struct {
		Result            string
		Unpriced          string
		Position, Waiting table
	}{
		Result: c.money(report.Result),
		Position: table{Caption: c.text("position.title"), Empty: c.text("operations.empty"), Heads: c.heads("wallet.currency", "position.at_hand#", "position.away#", "position.worth#",
			"position.least#", "position.upper#", "position.most#", "position.room#", "position.todo")},
		Waiting: table{Caption: c.text("position.waiting"), Empty: c.text("operations.empty"), Heads: c.heads("operations.object", "operations.company", "operations.count#")},
	}
	maybe := func(x money.Amount) cell {
		if x.Asset() == "" {
			return cell{Text: "–", Kind: "number"}
		}
		return c.amount(x)
	}
	for _, a := range report.Positions {
		least, todo := a.Least, cell{Text: "–"}
		switch {
		case !a.Bounded:
			least = money.Amount{}
		case a.Hedge.Sign() > 0:
			todo = cell{Text: c.text("position.bring", c.money(a.Hedge)), Warn: true}
		case a.Hedge.Sign() < 0:
			todo = cell{Text: c.text("position.sell", c.money(a.Hedge.Neg())), Warn: true}
		}
		p.Position.Rows = append(p.Position.Rows, []cell{{Text: string(a.Asset)}, c.amount(a.AtHand), c.amount(a.Away), maybe(a.Value), maybe(least), maybe(a.Upper), maybe(a.Most), maybe(a.Room), todo})
	}
	var unpriced []string
	for _, a := range report.Unpriced {
		unpriced = append(unpriced, string(a))
	}
	p.Unpriced = strings.Join(unpriced, ", ")
	for _, t := range waiting {
		p.Waiting.Rows = append(p.Waiting.Rows, []cell{code(t.PayrollID), code(t.CompanyID), {Text: c.count(t.Payments), Kind: "number"}})
	}
	return view{page: "position", title: c.text("position.title"), wide: true, data: p}, nil
}

type jobsPage struct {
	Table table
	IDs   []string
}

// showJobs lists the dead jobs.
func showJobs(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	dead, err := job.ListDead(ctx, tx, backoffice.MostItems)
	if err != nil {
		return view{}, err
	}
	p := jobsPage{Table: table{Caption: c.text("operations.jobs"), Empty: c.text("operations.empty"),
		Heads: c.heads("operations.since", "operations.object", "operations.company", "operations.jobs.attempts#", "step.why")}}
	for _, j := range dead {
		id := code(j.ID)
		id.Lines = []cell{code(j.Kind)}
		p.Table.Rows = append(p.Table.Rows, []cell{c.at(j.Since), id, code(j.CompanyID), {Text: c.count(int64(j.Attempt)), Kind: "number"}, {Text: j.LastError}})
		p.IDs = append(p.IDs, j.ID)
	}
	return view{page: "operations_jobs", title: c.text("operations.jobs"), wide: true, data: p}, nil
}

// retryJob retries a dead job.
func retryJob(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	err := c.Operators.RetryJob(ctx, tx, *c.operator, c.r.PathValue("id"), c.form.Get("reason"))
	return view{redirect: jobsPath}, atForm(err)
}

// showActs is what operators did.
func showActs(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	all, total, err := backoffice.Acts(ctx, tx, c.page(), perPage)
	if err != nil {
		return view{}, err
	}
	t := table{Caption: c.text("operations.acts"), Empty: c.text("operations.empty"), Heads: c.heads("step.at", "operations.who", "step.what", "operations.object", "step.why")}
	for _, a := range all {
		who := cell{Text: cmp.Or(a.Name, c.text("operations.machine"))}
		object := code(a.ObjectID)
		if a.CompanyID != "" {
			object.Lines = []cell{code(a.CompanyID)}
		}
		t.Rows = append(t.Rows, []cell{c.at(a.At), who, {Text: c.word("operations.act", a.Action)}, object, {Text: a.Reason}})
	}
	return view{page: "operations_acts", title: c.text("operations.acts"), wide: true, data: struct {
		Table table
		Pager pager
	}{t, c.pager(c.page(), perPage, total)}}, nil
}

// showReconciliation is what the last comparisons of the books with the world found.
func showReconciliation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	all, err := backoffice.Reports(ctx, tx, perPage)
	if err != nil {
		return view{}, err
	}
	p := struct{ Differences, Reports, Rest table }{
		Differences: table{Caption: c.text("reconciliation.differences"), Empty: c.text("reconciliation.clean"), Heads: c.heads("step.what", "operations.object", "reconciliation.books", "reconciliation.world")},
		Reports:     table{Caption: c.text("reconciliation.reports"), Empty: c.text("operations.empty"), Heads: c.heads("step.at", "reconciliation.height#", "reconciliation.coins#", "reconciliation.total#", "reconciliation.count#")},
		Rest:        table{Caption: c.text("reconciliation.rest"), Empty: c.text("operations.empty"), Heads: c.heads("operations.object")},
	}
	for i, r := range all {
		p.Reports.Rows = append(p.Reports.Rows, []cell{c.at(r.At), {Text: c.count(r.Height), Kind: "number"}, {Text: c.count(r.Coins), Kind: "number"}, {Text: r.Total, Kind: "number"},
			{Text: c.count(int64(len(r.Differences))), Kind: "number", Warn: !r.Clean()}})
		if i > 0 {
			continue
		}
		for _, d := range r.Differences {
			p.Differences.Rows = append(p.Differences.Rows, []cell{{Text: c.word("reconciliation", d.Kind), Warn: true}, code(d.Object), {Text: d.Books}, {Text: d.World}})
		}
		for _, text := range r.NotCompared {
			p.Rest.Rows = append(p.Rest.Rows, []cell{{Text: text}})
		}
	}
	if len(all) == 0 {
		p.Differences.Empty = c.text("reconciliation.never")
	}
	return view{page: "reconciliation", title: c.text("reconciliation.title"), wide: true, data: p}, nil
}

// operations are the parts of the house's pages.
var operations = []struct{ key, path string }{
	{"operations.title", operationsPath}, {"position.title", operationsPath + "/position"}, {"reconciliation.title", operationsPath + "/reconciliation"}, {"operations.jobs", jobsPath}, {"operations.acts", operationsPath + "/acts"},
}

// Operations is the menu of an operator.
func (s shown) Operations() (all []section) {
	if s.c.operator == nil {
		return nil
	}
	for _, it := range operations {
		all = append(all, section{s.T(it.key), s.URL(it.path), s.c.r.URL.Path == it.path})
	}
	return all
}
