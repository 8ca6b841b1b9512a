package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/apierr"
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

// newTreasury limits exchanges in production; a sandbox's banks have unlimited funds.
func newTreasury(env string) treasury.Desk { return treasury.Desk{Open: env == app.Sandbox} }

// FXCmd groups the commands about the house's own position in each asset.
type FXCmd struct {
	Report   FXReportCmd   `cmd:"" help:"Show what the house owns of each asset, what that is worth, what may be exchanged, and what to buy or sell."`
	Limit    FXLimitCmd    `cmd:"" help:"Set how much of an asset the house keeps, from where on it is to sell, and how much one destination may get."`
	Address  FXAddressCmd  `cmd:"" help:"Print the address to which the operator sends bitcoins of the house."`
	Deposit  FXDepositCmd  `cmd:"" help:"Book money that the operator brought to a bank or an exchange."`
	Withdraw FXWithdrawCmd `cmd:"" help:"Book money that the operator took home from a bank or an exchange."`
	Trade    FXTradeCmd    `cmd:"" help:"Book an exchange of assets with the market."`
	Move     FXMoveCmd     `cmd:"" help:"Book a transfer of the house's money between banks and exchanges."`
	Send     FXSendCmd     `cmd:"" help:"Pay bitcoins that the house owns to an address of the operator's."`
}

// Help is the long form of the help.
func (FXCmd) Help() string {
	return `Whoever is paid in another asset than a pay run was funded in is paid out of what the house itself owns of it, and never out
of what belongs to others. docs/operating.md says how to keep it stocked.`
}

// FXReportCmd is the hedging report.
type FXReportCmd struct {
	app.Storage
	Env  string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run prints the report.
func (c FXReportCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			report, err := newTreasury(c.Env).Hedging(ctx, tx)
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
	})
}

// orNone is an amount, or a dash where there is none.
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", p.Asset, p.AtHand, p.Away, orNone(p.Value), least, orNone(p.Upper), orNone(p.Most), orNone(p.Room), act)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "All positions together are worth %s USD at present prices.\n", r.Result)
	if len(r.Unpriced) > 0 {
		fmt.Fprintf(out, "Without a price now, and left out of that: %v.\n", r.Unpriced)
	}
	for _, t := range waiting {
		fmt.Fprintf(out, "Payroll %s of company %s: %d payments wait until more can be exchanged.\n", t.PayrollID, t.CompanyID, t.Payments)
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
		row := position{Asset: p.Asset, AtHand: p.AtHand, Away: p.Away, Value: maybe(p.Value), Upper: maybe(p.Upper), Most: maybe(p.Most), Room: maybe(p.Room), Hedge: p.Hedge}
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

// assetArg reads an asset's code.
func assetArg(code string) (money.Asset, error) {
	a, known := money.Lookup(strings.ToUpper(code))
	if !known {
		return "", fmt.Errorf("%s is no asset that the service knows", code)
	}
	return a, nil
}

// amountArg reads an amount and the code of its asset.
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

// placeArg reads bank, bank:NAME or exchange:NAME.
func placeArg(text string) treasury.Place {
	kind, name, _ := strings.Cut(text, ":")
	return treasury.Place{Kind: kind, Name: name}
}

// plain is an error as a person at a terminal reads it.
func plain(err error) error {
	if f, ok := apierr.As(err); ok {
		return errors.New(f.Detail)
	}
	return err
}

// FXLimitCmd sets a limit.
type FXLimitCmd struct {
	app.Storage
	Asset string `arg:"" help:"Code of the asset, such as BTC or EUR."`
	Least string `default:"0" help:"What the house keeps back (${default}). Below 0 (--least=-20000) for a currency of banks that a bank or an exchange advances."`
	Upper string `placeholder:"AMOUNT" help:"From where on the report says to sell. Default: never."`
	Most  string `placeholder:"AMOUNT" help:"What one destination may get at once. Default: no bound."`
}

// Run replaces the asset's limit.
func (c FXLimitCmd) Run(ctx context.Context, std Streams) error {
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
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return treasury.SetLimit(ctx, tx, l) })
		if err == nil {
			fmt.Fprintf(std.Out, "The house keeps %s %s.\n", l.Least, a)
		}
		return plain(err)
	})
}

// WalletKey is the wallet that addresses come from, for commands that make one.
type WalletKey struct {
	Env            string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	BitcoinNetwork string `enum:",bitcoin,testnet,signet,regtest" env:"STIPEND_BITCOIN_NETWORK" default:"" placeholder:"NET" help:"bitcoin, testnet, signet or regtest. Default: regtest in the sandbox, bitcoin in production."`
	BitcoinXPub    string `name:"bitcoin-xpub" env:"STIPEND_BITCOIN_XPUB" placeholder:"KEY" help:"Public account key that addresses come from. Default: that of the private key; in a sandbox, the sandbox's."`
	BitcoinXPrv    string `name:"bitcoin-xprv" env:"STIPEND_BITCOIN_XPRV" placeholder:"KEY" help:"Private account key, in place of the public one."`
}

// FXAddressCmd prints the house's address.
type FXAddressCmd struct {
	app.Storage
	WalletKey
}

// Run makes the address where there is none yet.
func (c FXAddressCmd) Run(ctx context.Context, std Streams) error {
	full := app.Config{Storage: c.Storage, Env: c.Env, BitcoinNetwork: c.BitcoinNetwork, BitcoinXPub: c.BitcoinXPub, BitcoinXPrv: c.BitcoinXPrv}.Complete()
	if full.BitcoinXPub == "" {
		return errors.New("--bitcoin-xpub is missing: the address comes from it")
	}
	keys, err := bitcoin.ParseXPub(full.BitcoinXPub, full.BitcoinNetwork)
	if err != nil {
		return fmt.Errorf("--bitcoin-xpub: %w", err)
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var address string
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			address, err = treasury.OperatorAddress(ctx, tx, chain.NewPool(d, app.BitcoinChain, keys))
			return err
		})
		if err == nil {
			fmt.Fprintln(std.Out, address)
		}
		return plain(err)
	})
}

// book runs a booking and says what became of it.
func book(ctx context.Context, s app.Storage, std Streams, f func(context.Context, *db.Tx) (bool, error)) error {
	return withDB(ctx, s, func(ctx context.Context, d *db.DB) error {
		var booked bool
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			booked, err = f(ctx, tx)
			return err
		})
		switch {
		case err != nil:
			return plain(err)
		case booked:
			fmt.Fprintln(std.Out, "Booked.")
		default:
			fmt.Fprintln(std.Out, "This was booked before; nothing has changed.")
		}
		return nil
	})
}

// FXDepositCmd books a deposit.
type FXDepositCmd struct {
	app.Storage
	Amount    string `arg:"" help:"How much."`
	Asset     string `arg:"" help:"Of what, such as EUR."`
	At        string `default:"bank" help:"bank, bank:NAME or exchange:NAME (${default})."`
	Reference string `required:"" help:"The bank's or the exchange's; a booking of the same one is made once."`
}

// Run books it.
func (c FXDepositCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, c.Asset)
	if err != nil {
		return err
	}
	if x.Asset().IsCrypto() && !strings.HasPrefix(c.At, treasury.PlaceExchange) {
		return errors.New("coins are no bank's: send bitcoins to the address of stipend fx address, or say --at exchange:NAME")
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return treasury.Deposit(ctx, tx, treasury.Booking{Place: placeArg(c.At), Reference: c.Reference}, x)
	})
}

// FXWithdrawCmd books a withdrawal.
type FXWithdrawCmd struct {
	app.Storage
	Env       string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	Amount    string `arg:"" help:"How much."`
	Asset     string `arg:"" help:"Of what, such as EUR."`
	At        string `default:"bank" help:"bank, bank:NAME or exchange:NAME (${default})."`
	Reference string `required:"" help:"The bank's or the exchange's; a booking of the same one is made once."`
}

// Run books it.
func (c FXWithdrawCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, c.Asset)
	if err != nil {
		return err
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return newTreasury(c.Env).Withdraw(ctx, tx, treasury.Booking{Place: placeArg(c.At), Reference: c.Reference}, x)
	})
}

// FXTradeCmd books a trade.
type FXTradeCmd struct {
	app.Storage
	Env        string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	Given      string `arg:"" help:"How much was given."`
	GivenAsset string `arg:"" help:"Of what, such as BTC."`
	Got        string `arg:"" help:"How much was got for it, after the exchange's fee."`
	GotAsset   string `arg:"" help:"Of what, such as USD."`
	At         string `required:"" help:"exchange:NAME or bank:NAME, where both are."`
	Reference  string `required:"" help:"The exchange's; a booking of the same one is made once."`
}

// Run books it.
func (c FXTradeCmd) Run(ctx context.Context, std Streams) error {
	given, err := amountArg(c.Given, c.GivenAsset)
	if err != nil {
		return err
	}
	got, err := amountArg(c.Got, c.GotAsset)
	if err != nil {
		return err
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return newTreasury(c.Env).Trade(ctx, tx, treasury.Booking{Place: placeArg(c.At), Reference: c.Reference}, given, got)
	})
}

// FXMoveCmd books a transfer between banks and exchanges.
type FXMoveCmd struct {
	app.Storage
	Env       string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	Amount    string `arg:"" help:"How much."`
	Asset     string `arg:"" help:"Of what, such as USD."`
	From      string `required:"" help:"bank, bank:NAME or exchange:NAME."`
	To        string `required:"" help:"bank, bank:NAME or exchange:NAME."`
	Reference string `required:"" help:"The sender's; a booking of the same one is made once."`
}

// Run books it.
func (c FXMoveCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, c.Asset)
	if err != nil {
		return err
	}
	return book(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return newTreasury(c.Env).Move(ctx, tx, treasury.Booking{Place: placeArg(c.From), Reference: c.Reference}, placeArg(c.To), x)
	})
}

// FXSendCmd pays coins of the house.
type FXSendCmd struct {
	app.Storage
	WalletKey
	Amount  string `arg:"" help:"How many bitcoins, such as 0.5."`
	Address string `arg:"" help:"Where they go: an address of the operator's, at an exchange say."`
}

// Run queues a payout, which a worker pays like any other.
func (c FXSendCmd) Run(ctx context.Context, std Streams) error {
	x, err := amountArg(c.Amount, string(money.BTC))
	if err != nil {
		return err
	}
	if x.Cmp(payroll.Minimum(money.BTC)) < 0 {
		return errors.New("this is too little for the chain")
	}
	full := app.Config{Storage: c.Storage, Env: c.Env, BitcoinNetwork: c.BitcoinNetwork}.Complete()
	address, err := bitcoin.NormalizeAddress(c.Address, full.BitcoinNetwork)
	if err != nil {
		return err
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var id string
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			if own, err := chain.IsOwnAddress(ctx, tx, app.BitcoinChain, address); err != nil {
				return err
			} else if own {
				return destination.ErrOwnAddress
			}
			id = tx.NewID("out")
			if err := newTreasury(c.Env).Give(ctx, tx, id, x); err != nil {
				return err
			}
			return payout.Add(tx, []payout.Output{{
				CompanyID: ledger.Operator, ID: id, PayrollID: treasury.OperatorObject, PaymentID: id, Rail: payout.RailBitcoin, Amount: x, Input: x, Address: address,
			}})
		})
		if err == nil {
			fmt.Fprintf(std.Out, "%s BTC leave as %s. Once they are at the exchange, book them: stipend fx deposit %s BTC --at exchange:NAME --reference …\n", x, id, x)
		}
		return plain(err)
	})
}
