package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/treasury"
)

// newTreasury returns the treasury of an environment.
func newTreasury(env string) (*treasury.Treasury, error) {
	return treasury.New(app.TreasuryPolicy(env))
}

// TreasuryCmd groups the commands about the operator's own funds.
type TreasuryCmd struct {
	Report   TreasuryReportCmd   `cmd:"" help:"Show own funds, their limits, and what to buy or sell."`
	Limit    TreasuryLimitCmd    `cmd:"" help:"Set the limits of an asset."`
	Address  TreasuryAddressCmd  `cmd:"" help:"Print the address that the operator sends own bitcoins to."`
	Deposit  TreasuryDepositCmd  `cmd:"" help:"Post money that the operator brought to a bank or an exchange."`
	Withdraw TreasuryWithdrawCmd `cmd:"" help:"Post money that the operator took from a bank or an exchange."`
	Trade    TreasuryTradeCmd    `cmd:"" help:"Post an exchange of assets at the market."`
	Move     TreasuryMoveCmd     `cmd:"" help:"Post a transfer between banks and exchanges."`
	Send     TreasurySendCmd     `cmd:"" help:"Send own bitcoins to an address of the operator."`
}

// Help returns the details of the help.
func (TreasuryCmd) Help() string {
	return `A payee who is paid in another asset than the payroll was funded in is paid from the operator's own funds
of that asset, never from the funds of customers. docs/operating.md describes how to keep enough of each
asset.`
}

// TreasuryReportCmd prints the hedging report.
type TreasuryReportCmd struct {
	app.Storage
	Env  string `default:"sandbox" enum:"sandbox,production"`
	JSON bool   `name:"json" env:"-" help:"Print JSON."`
}

// Run prints the report.
func (c TreasuryReportCmd) Run(ctx context.Context, std Streams) error {
	t, err := newTreasury(c.Env)
	if err != nil {
		return err
	}
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		report, err := t.Report(ctx, tx)
		if err != nil {
			return err
		}
		waiting, err := payroll.WaitingForConversion(ctx, tx)
		if err != nil {
			return err
		}
		if c.JSON {
			return printPositionsJSON(std.Out, report, waiting)
		}
		return printPositions(std.Out, report, waiting)
	})
}

// orNone formats an amount, or returns a dash if the amount has no asset.
func orNone(x money.Amount) string {
	if x.Asset() == "" {
		return "–"
	}
	return x.String()
}

func printPositions(out io.Writer, r treasury.Report, waiting []payroll.Issue) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "asset\tat hand\tat exchanges\tworth in USD\tleast\tupper\tone payout\troom\tto do\t")
	for _, p := range r.Positions {
		least, act := "–", "–"
		if p.Bounded {
			least = p.Least.String()
			switch {
			case p.Hedge.Sign() > 0:
				act = "bring " + p.Hedge.String()
			case p.Hedge.Sign() < 0:
				act = "sell " + p.Hedge.Neg().String()
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", p.Asset, p.Available, p.AtExchanges, orNone(p.Value),
			least, orNone(p.Upper), orNone(p.Most), orNone(p.Capacity), act)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "All positions together are worth %s USD at present prices.\n", r.Result)
	if len(r.Unpriced) > 0 {
		fmt.Fprintf(out, "Not included, since there is no price at present: %v.\n", r.Unpriced)
	}
	for _, t := range waiting {
		fmt.Fprintf(out, "Payroll %s of company %s: %d payments wait until more can be exchanged.\n",
			t.PayrollID, t.CompanyID, t.Payments)
	}
	return nil
}

func printPositionsJSON(out io.Writer, r treasury.Report, waiting []payroll.Issue) error {
	type position struct {
		Asset  money.Asset   `json:"asset"`
		AtHand money.Amount  `json:"at_hand"`
		Away   money.Amount  `json:"at_exchanges"`
		Value  *money.Amount `json:"value_usd"`
		Price  *money.Rate   `json:"price_usd"`
		Least  *money.Amount `json:"least"`
		Upper  *money.Amount `json:"upper"`
		Most   *money.Amount `json:"most"`
		Room   *money.Amount `json:"room"`
		Hedge  money.Amount  `json:"hedge"`
	}
	type waits struct {
		CompanyID string `json:"company_id"`
		PayrollID string `json:"payroll_id"`
		Payments  int64  `json:"payments"`
	}
	full := struct {
		Positions []position    `json:"positions"`
		Result    money.Amount  `json:"result_usd"`
		Unpriced  []money.Asset `json:"unpriced"`
		Waiting   []waits       `json:"waiting"`
	}{[]position{}, r.Result, append([]money.Asset{}, r.Unpriced...), []waits{}}
	maybe := func(x money.Amount) *money.Amount {
		if x.Asset() == "" {
			return nil
		}
		return &x
	}
	for _, p := range r.Positions {
		row := position{
			Asset: p.Asset, AtHand: p.Available, Away: p.AtExchanges, Value: maybe(p.Value),
			Upper: maybe(p.Upper), Most: maybe(p.Most), Room: maybe(p.Capacity), Hedge: p.Hedge,
		}
		if p.Bounded {
			row.Least = &p.Least
		} else {
			row.Hedge = money.Zero(p.Asset)
		}
		if !p.Price.IsZero() {
			row.Price = &p.Price
		}
		full.Positions = append(full.Positions, row)
	}
	for _, t := range waiting {
		full.Waiting = append(full.Waiting, waits{t.CompanyID, t.PayrollID, t.Payments})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(full)
}

// assetArg parses the code of an asset.
func assetArg(code string) (money.Asset, error) {
	a, known := money.Lookup(strings.ToUpper(code))
	if !known {
		return "", fmt.Errorf("%s is not an asset of the service", code)
	}
	return a, nil
}

// amountArg parses an amount and the code of its asset.
func amountArg(text, code string) (money.Amount, error) {
	a, err := assetArg(code)
	if err != nil {
		return money.Amount{}, err
	}
	x, err := money.Parse(a, text)
	if err != nil {
		return x, fmt.Errorf("%s %s: %w", text, code, err)
	}
	return x, nil
}

// placeArg parses a place: bank, bank:NAME or exchange:NAME.
func placeArg(text string) treasury.Place {
	kind, name, _ := strings.Cut(text, ":")
	return treasury.Place{Kind: kind, Name: name}
}

func booking(place, reference string) treasury.Booking {
	return treasury.Booking{Place: placeArg(place), Reference: reference}
}

// TreasuryLimitCmd sets the limits of an asset.
type TreasuryLimitCmd struct {
	app.Storage
	Asset string `arg:"" help:"Code of the asset, such as BTC or EUR."`
	Least string `default:"0" help:"Amount to keep (${default}); below 0 (--least=-20000) if a bank gives credit."`
	Upper string `placeholder:"AMOUNT" help:"Amount above which the report says to sell. Default: none."`
	Most  string `placeholder:"AMOUNT" help:"Maximum of one payout. Default: none."`
}

// Run replaces the limits of the asset.
func (c TreasuryLimitCmd) Run(ctx context.Context, std Streams) error {
	a, err := assetArg(c.Asset)
	if err != nil {
		return err
	}
	l := treasury.Limit{Asset: a}
	for _, part := range []struct {
		text string
		to   *money.Amount
	}{{c.Least, &l.Least}, {c.Upper, &l.Upper}, {c.Most, &l.Most}} {
		if part.text == "" {
			continue
		}
		if *part.to, err = amountArg(part.text, c.Asset); err != nil {
			return err
		}
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		return fmt.Sprintf("The operator keeps %s %s.", l.Least, a), treasury.SetLimit(ctx, tx, l)
	})
}

// TreasuryAddressCmd prints the operator's Bitcoin address.
type TreasuryAddressCmd struct {
	app.Storage
	WalletFlags
}

// Run prints the address, which it first derives if there is none yet.
func (c TreasuryAddressCmd) Run(ctx context.Context, std Streams) error {
	full := c.config().Complete()
	if full.BitcoinXPub == "" {
		return errors.New("--bitcoin-xpub is missing: the address is derived from it")
	}
	keys, err := bitcoin.ParseXPub(full.BitcoinXPub, full.BitcoinNetwork)
	if err != nil {
		return fmt.Errorf("--bitcoin-xpub: %w", err)
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return write(ctx, d, std, func(ctx context.Context, tx *db.Tx) (string, error) {
			return treasury.OperatorAddress(ctx, tx, chain.NewPool(d, app.BitcoinChain, keys))
		})
	})
}

// book executes a booking, and prints whether the booking is new.
func book(ctx context.Context, s app.Storage, std Streams, f func(context.Context, *db.Tx) (bool, error)) error {
	return writeDB(ctx, s, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		booked, err := f(ctx, tx)
		if booked {
			return "Booked.", err
		}
		return "This was booked before; nothing has changed.", err
	})
}

// TreasuryDepositCmd posts a deposit.
type TreasuryDepositCmd struct {
	app.Storage
	Amount    string `arg:"" help:"Amount."`
	Asset     string `arg:"" help:"Its asset, such as EUR."`
	At        string `default:"bank" help:"bank, bank:NAME, exchange:NAME or lightning (${default})."`
	Reference string `required:"" help:"Reference of the bank or exchange; each is posted once."`
}

// Run posts the deposit.
func (c TreasuryDepositCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, c.Asset)
	if err != nil {
		return err
	}
	if x.Asset().IsCrypto() && !strings.HasPrefix(c.At, treasury.PlaceExchange) && c.At != treasury.PlaceLightning {
		return errors.New("a bank holds no coins: use the address of stipend treasury address, --at exchange:NAME or " +
			"--at lightning")
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return treasury.Deposit(ctx, tx, booking(c.At, c.Reference), x)
	})
}

// TreasuryWithdrawCmd posts a withdrawal.
type TreasuryWithdrawCmd struct {
	app.Storage
	Env       string `default:"sandbox" enum:"sandbox,production"`
	Amount    string `arg:"" help:"Amount."`
	Asset     string `arg:"" help:"Its asset, such as EUR."`
	At        string `default:"bank" help:"bank, bank:NAME, exchange:NAME or lightning (${default})."`
	Reference string `required:"" help:"Reference of the bank or exchange; each is posted once."`
}

// Run posts the withdrawal.
func (c TreasuryWithdrawCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, c.Asset)
	if err != nil {
		return err
	}
	t, err := newTreasury(c.Env)
	if err != nil {
		return err
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return t.Withdraw(ctx, tx, booking(c.At, c.Reference), x)
	})
}

// TreasuryTradeCmd posts a trade.
type TreasuryTradeCmd struct {
	app.Storage
	Env        string `default:"sandbox" enum:"sandbox,production"`
	Given      string `arg:"" help:"Amount given."`
	GivenAsset string `arg:"" help:"Its asset, such as BTC."`
	Got        string `arg:"" help:"Amount received, after the exchange's fee."`
	GotAsset   string `arg:"" help:"Its asset, such as USD."`
	At         string `required:"" help:"exchange:NAME or bank:NAME of both amounts."`
	Reference  string `required:"" help:"Reference of the exchange; each is posted once."`
}

// Run posts the trade.
func (c TreasuryTradeCmd) Run(ctx context.Context, std Streams) error {
	given, err := amountArg(c.Given, c.GivenAsset)
	if err != nil {
		return err
	}
	got, err := amountArg(c.Got, c.GotAsset)
	if err != nil {
		return err
	}
	t, err := newTreasury(c.Env)
	if err != nil {
		return err
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return t.Trade(ctx, tx, booking(c.At, c.Reference), given, got)
	})
}

// TreasuryMoveCmd posts a transfer between banks and exchanges.
type TreasuryMoveCmd struct {
	app.Storage
	Env       string `default:"sandbox" enum:"sandbox,production"`
	Amount    string `arg:"" help:"Amount."`
	Asset     string `arg:"" help:"Its asset, such as USD."`
	From      string `required:"" help:"bank, bank:NAME, exchange:NAME or lightning."`
	To        string `required:"" help:"bank, bank:NAME, exchange:NAME or lightning."`
	Reference string `required:"" help:"Reference of the sender; each is posted once."`
}

// Run posts the transfer.
func (c TreasuryMoveCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, c.Asset)
	if err != nil {
		return err
	}
	t, err := newTreasury(c.Env)
	if err != nil {
		return err
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return t.Transfer(ctx, tx, booking(c.From, c.Reference), placeArg(c.To), x)
	})
}

// TreasurySendCmd sends the operator's own bitcoin.
type TreasurySendCmd struct {
	app.Storage
	WalletFlags
	Amount  string `arg:"" help:"Bitcoins, such as 0.5."`
	Address string `arg:"" help:"Address of the operator, for example at an exchange."`
}

// Run queues a payout, which a worker sends like any other payout.
func (c TreasurySendCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, string(money.BTC))
	if err != nil {
		return err
	}
	if x.Cmp(payroll.Minimum(money.BTC)) < 0 {
		return errors.New("the amount is below the minimum of the chain")
	}
	full := c.config().Complete()
	address, err := bitcoin.NormalizeAddress(c.Address, full.BitcoinNetwork)
	if err != nil {
		return err
	}
	t, err := newTreasury(c.Env)
	if err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		if own, err := chain.IsOwnAddress(ctx, tx, app.BitcoinChain, address); err != nil {
			return "", err
		} else if own {
			return "", destination.ErrOwnAddress
		}
		id := tx.NewID("out")
		if err := t.Send(ctx, tx, id, x); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s BTC are sent as %s. When they have arrived at the exchange, post them: "+
				"stipend treasury deposit %s BTC --at exchange:NAME --reference …", x, id, x),
			payout.Add(tx, []payout.Output{{
				CompanyID: ledger.Operator, ID: id, PayrollID: treasury.OperatorObject, PaymentID: id,
				Rail: payout.RailBitcoin, Amount: x, Input: x, Address: address,
			}})
	})
}
