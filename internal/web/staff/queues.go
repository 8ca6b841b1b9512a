package staff

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/web/ui"
)

type queuePage struct {
	Name    string
	Queues  []queueTab // all that the reader may see
	Figures []ui.Cell  // labels in Text and values in ID
	Items   ui.Table
	Do      []queueItem // items that staff can decide here
	Acts    bool
}

// queueTab is a link to a queue. Count is the number of its items, "" for none.
type queueTab struct {
	Name, Path, Count string
	Current           bool
}

type queueItem struct {
	Company, Object, Of, What, Reason, Amount, Since string
	Release, Hit, Transfer, Deposit, Debt, Lightning bool
	Name                                             string // of the company
	Match                                            *backoffice.Match
}

// showQueue renders one queue.
func showQueue(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	name := cmp.Or(c.HTTP.PathValue("queue"), c.Form.Get("queue"))
	if slices.Contains(backoffice.Queues, name) && !c.Staff.Member.MayRead(name) {
		return ui.View{}, backoffice.ErrRole
	}
	items, err := backoffice.Queue(ctx, tx, name)
	if err != nil {
		return ui.View{}, err
	}
	worth, err := sortItems(ctx, tx, c, items)
	if err != nil {
		return ui.View{}, err
	}
	p := queuePage{Name: name, Acts: c.Staff.MayAct(c.Time),
		Items: ui.Table{Caption: c.Text("operations.queue." + name), Heads: c.Columns("operations.since|d",
			"operations.object|a", "operations.company|e", "payment.amount#|b", "step.why|c")}}
	p.Items.Empty = c.EmptyStep("circle-check", "operations.queue.clear", true, "operations.queue.back", ui.StaffPath)
	if p.Queues, err = queueTabs(ctx, tx, c, name); err != nil {
		return ui.View{}, err
	}
	if len(items) > 0 {
		oldest := slices.MinFunc(items, func(a, b backoffice.Item) int { return a.Since.Compare(b.Since) })
		p.Figures = []ui.Cell{{Text: c.Text("operations.count"), ID: countOf(c, items)},
			{Text: c.Text("operations.worth"), ID: c.FormatNumber(worth.String())},
			{Text: c.Text("operations.oldest"), ID: c.FormatTime(oldest.Since)}}
	}
	p.Items.Heads = c.Sortable(p.Items.Heads, byAge, "", "", byWorth, "")
	for _, i := range items {
		why := ui.Cell{Text: c.Word("reason", i.Reason)}
		if i.State != "" {
			why.Lines = append(why.Lines, ui.Cell{Text: c.Word("output.state", i.State)})
		}
		if i.Detail != "" {
			why.Lines = append(why.Lines, ui.CodeCell(i.Detail))
		}
		object := ui.CodeCell(i.ObjectID)
		if i.OfID != "" {
			object.Lines = []ui.Cell{ui.CodeCell(i.OfID)}
		}
		amount := ui.Cell{Kind: "number"}
		if i.Amount.Asset() != "" {
			amount = c.AmountCell(i.Amount)
		}
		if i.Match != nil {
			object = ui.Cell{Text: cmp.Or(i.Match.Name, i.OfID), Kind: "person", Lines: []ui.Cell{ui.CodeCell(i.ObjectID)}}
			why = ui.Cell{Text: i.Match.Entry, Lines: []ui.Cell{{Text: c.Text("operations.score",
				c.FormatCount(int64(i.Match.Score)))}}}
		}
		company := ui.CodeCell(i.CompanyID)
		if i.Company != "" {
			company = c.LinkCell(i.Company, companiesPath+"/"+i.CompanyID)
			company.Lines = []ui.Cell{ui.CodeCell(i.CompanyID)}
		}
		p.Items.Rows = append(p.Items.Rows, []ui.Cell{c.TimeCell(i.Since), object, company, amount, why})
		transfer := name == backoffice.Suspense && strings.HasPrefix(i.ObjectID, "trf_")
		deposit := name == backoffice.Suspense && strings.HasPrefix(i.ObjectID, "dep_")
		debt := name == backoffice.Debts && i.Amount.Sign() > 0
		if action := decides(name, transfer, deposit, debt, i.Lightning); c.Staff.Member.May(action) {
			p.Do = append(p.Do, queueItem{
				Company: i.CompanyID, Object: i.ObjectID, Of: i.OfID, What: i.Detail, Reason: i.Reason,
				Amount: c.FormatMoney(i.Amount), Since: c.FormatTime(i.Since),
				Release: name == backoffice.Releases, Hit: name == backoffice.Hits, Transfer: transfer, Deposit: deposit,
				Debt: debt, Lightning: i.Lightning, Name: i.Company, Match: i.Match,
			})
		}
	}
	return ui.View{Template: "operations_queue", Title: c.Text("operations.queue." + name),
		Lead: c.Text("operations.queue." + name + ".why"), Crumbs: []ui.Cell{c.LinkCell(c.Text("operations.title"),
			ui.StaffPath)}, Data: p}, nil
}

// queueTabs returns the queues that the reader may see, with the numbers of their items.
func queueTabs(ctx context.Context, tx *db.Tx, c *ui.Request, current string) (all []queueTab, err error) {
	for _, name := range backoffice.Queues {
		if !c.Staff.Member.MayRead(name) {
			continue
		}
		items, err := backoffice.Queue(ctx, tx, name)
		if err != nil {
			return nil, err
		}
		tab := queueTab{Name: c.Text("operations.queue." + name), Path: c.URL(ui.StaffPath + "/queues/" + name),
			Current: name == current}
		if len(items) > 0 {
			tab.Count = countOf(c, items)
		}
		all = append(all, tab)
	}
	return all, nil
}

// countOf returns the number of a queue's items, and says if there are more than the queue shows.
func countOf(c *ui.Request, items []backoffice.Item) string {
	count := c.FormatCount(int64(len(items)))
	if len(items) >= backoffice.MostItems {
		return "≥ " + count
	}
	return count
}

// Keys of the columns by which a queue is sorted.
const (
	byAge   = "since"
	byWorth = "amount"
)

// sortItems sorts the items of a queue by the column that the reader chose: by their age, or by their worth in US
// dollars. It returns the worth of all items. An item without an amount, or in an asset without a current price, counts
// as zero.
func sortItems(ctx context.Context, tx *db.Tx, c *ui.Request, items []backoffice.Item) (total money.Amount, err error) {
	total, prices := money.Zero(money.USD), map[money.Asset]money.Rate{}
	worth := make(map[string]money.Amount, len(items))
	for _, i := range items {
		one, asset := money.Zero(money.USD), i.Amount.Asset()
		if _, known := prices[asset]; !known && asset != "" {
			prices[asset], err = rates.Latest(ctx, tx, asset, money.USD)
			if err != nil && !errors.Is(err, rates.ErrUnavailable) {
				return total, err
			}
		}
		switch price := prices[asset]; {
		case asset == money.USD:
			one = i.Amount
		case !price.IsZero():
			if one, err = price.Convert(i.Amount, money.HalfEven); err != nil {
				return total, err
			}
		}
		worth[i.CompanyID+i.ObjectID] = one
		if total, err = total.Add(one); err != nil {
			return total, err
		}
	}
	key, descending := c.SortedBy(byAge, byWorth)
	slices.SortStableFunc(items, func(a, b backoffice.Item) (order int) {
		switch key {
		case byAge:
			order = a.Since.Compare(b.Since)
		case byWorth:
			order = worth[a.CompanyID+a.ObjectID].Cmp(worth[b.CompanyID+b.ObjectID])
		}
		if descending {
			return -order
		}
		return order
	})
	return total, nil
}

// decides returns the action that staff takes on an item of a queue, or "".
func decides(queue string, transfer, deposit, debt, lightning bool) string {
	switch {
	case queue == backoffice.Hits:
		return backoffice.ClearHit
	case queue == backoffice.Releases:
		return backoffice.Release
	case transfer:
		return backoffice.Credit
	case deposit:
		return backoffice.CreditDeposit
	case debt:
		return backoffice.WriteOff
	case lightning:
		return backoffice.LightningOutcome
	}
	return ""
}

// decideHit requests to clear a screening hit, or confirms it.
func decideHit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := screening.Cleared
	if c.Form.Get("answer") != "clear" {
		to = screening.Confirmed
	}
	err := c.Backoffice.DecideHit(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), to, c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.Hits}, ui.FormConflict(err)
}

// decideTransfer requests to credit an unmatched bank transfer or to send it back.
func decideTransfer(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := ""
	if c.Form.Get("answer") != "back" {
		if to = strings.TrimSpace(c.Form.Get("to")); to == "" {
			return ui.View{}, errNoTarget.At("body", "")
		}
	}
	err := c.Backoffice.DecideTransfer(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), to, c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.Suspense}, ui.FormConflict(err)
}

// decideDeposit requests to credit an unmatched deposit or to send it back.
func decideDeposit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := strings.TrimSpace(c.Form.Get("to"))
	if to == "" {
		return ui.View{}, errNoTarget.At("body", "")
	}
	action := backoffice.CreditDeposit
	if c.Form.Get("answer") == "back" {
		action = backoffice.ReturnDeposit
	}
	err := c.Backoffice.DecideDeposit(ctx, tx, *c.Staff, action, c.Form.Get("company_id"), c.HTTP.PathValue("id"), to,
		c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.Suspense}, ui.FormConflict(err)
}

// decideLightning requests that a payment over Lightning is recorded as made, or as not made.
func decideLightning(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	company, output, reason := c.Form.Get("company_id"), c.HTTP.PathValue("id"), c.Form.Get("reason")
	var err error
	if c.Form.Get("answer") == "paid" {
		err = c.Backoffice.RequestLightningPaid(ctx, tx, *c.Staff, company, output, c.Form.Get("preimage"),
			c.Form.Get("fee"), reason)
	} else {
		err = c.Backoffice.RequestLightningFailed(ctx, tx, *c.Staff, company, output, reason)
	}
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.InDoubt}, ui.FormConflict(err)
}

// writeOffDebt requests to write off a company's debt.
func writeOffDebt(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.RequestWriteOff(ctx, tx, *c.Staff, c.Form.Get("company_id"), c.Form.Get("object_id"),
		c.Form.Get("amount"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

var errNoTarget = apierr.New(apierr.Invalid, "target_required",
	"Enter the ID of the owner, or of the payroll or invoice that it pays.")
