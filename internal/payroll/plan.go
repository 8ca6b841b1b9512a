package payroll

import (
	"cmp"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
)

// This file computes what a payroll costs and how much each payee gets. Its functions are pure.

const (
	basisPoints = 10_000 // basis points in 100 %, for fees
	maxFeeBps   = basisPoints
	maxText     = 500 // longest description, category or reference, in characters
	maxExternal = 255
)

// plan is a payroll before it has an ID.
type plan struct {
	currency, funding   money.Asset
	method              string
	setup               destination.Setup
	banks               []bank.Account
	country             string // country of the paying company
	network             string // EVM network that funds the payroll; "" means Bitcoin or no network
	externalID          string
	volume, fees, total money.Amount
	metadata            map[string]string
	items               []Item
	tolerance           int64
	companyID           string
	named               map[string]invoice.Invoice // invoices that the items pay, by ID
	payDate             string
	period              Period
	releaseAt           time.Time
	platformID          string // platform that earns platformBps of the payments, "" for none
	platformBps         int64
}

// Item is one payee of a plan.
type Item struct {
	Payee   // the item as requested
	PayeeID string
	Owner   string // ID of the payee or user whose destinations are used
	Name    string
	Amount  money.Amount
	Receive money.Amount // fixed amount that the payee receives; zero if Amount is fixed
	Fee     money.Amount
	Shares  []Share

	userID string // user ID that events contain
}

// Share is the part of an item that one destination receives, in the payroll's currency.
type Share struct {
	Destination destination.Destination
	Amount      money.Amount
	Receive     money.Amount // fixed amount that the destination receives; zero if it follows from Amount
}

// payeeID returns the ID of an item's payee, or "" if the item names none. An item with a user_id names that user, and
// its company_id can only be the payer. An item with a company_id alone names that company.
func payeeID(p Payee, payer string) string {
	if p.UserID == "" && p.CompanyID != payer {
		return p.CompanyID
	}
	return p.UserID
}

// payeeIDs returns the IDs of the payees of a request, each once.
func payeeIDs(p CreateParams) []string {
	ids := make([]string, len(p.ToPay))
	for i, item := range p.ToPay {
		ids[i] = payeeID(item, p.CompanyID)
	}
	return unique(ids)
}

// owners returns the IDs of all owners whose destinations may be used to pay these payees: the payees themselves and
// the users linked to them.
func owners(payees map[string]payee.Payee) []string {
	ids := make([]string, 0, 2*len(payees))
	for _, p := range payees {
		ids = append(ids, p.ID, p.UserID)
	}
	return unique(ids)
}

// unique sorts IDs and returns each once, without the empty ID.
func unique(ids []string) []string {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > 0 && ids[0] == "" {
		return ids[1:]
	}
	return ids
}

// destinations returns the payee's own destinations or, if there are none, the destinations of the user linked to the
// payee.
func destinations(p payee.Payee, all map[string][]destination.Destination) (owner string,
	used []destination.Destination) {
	for _, id := range [2]string{p.ID, p.UserID} {
		if id == "" {
			continue
		}
		if used = Allocated(all[id]); len(used) > 0 {
			return id, used
		}
	}
	return "", nil
}

// Allocated returns the destinations that receive a part of payments, or none if the allocations do not total 100.
func Allocated(all []destination.Destination) (used []destination.Destination) {
	sum := 0
	for _, d := range all {
		if d.Used() {
			used = append(used, d)
			sum += d.Allocation
		}
	}
	if sum != 100 {
		return nil
	}
	return used
}

var walletID = regexp.MustCompile(`^wal_[0-9a-z]+$`)

// carried reports whether a rail pays out to each of the destinations.
func carried(used []destination.Destination, setup destination.Setup) bool {
	return !slices.ContainsFunc(used, func(d destination.Destination) bool { return !setup.Payable(d.Symbol, d.Network) })
}

// onlyInternationalACH reports whether a destination cannot be paid because it requires an ACH payment within the
// United States and the paying company is in another country.
func onlyInternationalACH(used []destination.Destination, banks []bank.Account, payerCountry string) bool {
	return slices.ContainsFunc(used, func(d destination.Destination) bool {
		return d.Rail == destination.RailBank &&
			bank.OnlyInternationalACH(banks, d.Symbol, d.Country, d.Scheme, payerCountry)
	})
}

// method returns the funding method of a payroll: the requested method, else the company's default, else
// MethodCrypto.
func method(p CreateParams, c identity.Company) string {
	return cmp.Or(p.FundingMethod, c.FundingMethod, MethodCrypto)
}

// terms sets the payroll's currency and funding. held is the currency of the wallet that the method names, or "" if
// the company has no such wallet. Problems are added to list; ok reports whether the currency is known, so that
// amounts can be parsed.
func terms(p CreateParams, c identity.Company, held money.Asset, accounts chain.EVMNetworks, banks []bank.Account,
	list *apierr.List) (t plan, ok bool) {
	t.companyID, t.externalID, t.tolerance = c.ID, p.ExternalID, c.ToleranceBps
	t.metadata, t.period = p.Metadata, p.Period
	p.Period.check(list)
	metadata.Check(list, "/metadata", p.Metadata)
	t.banks, t.country = banks, c.Country
	if len(p.ExternalID) > maxExternal {
		list.Add("invalid_parameter", "/external_id", fmt.Sprintf("external_id has at most %d characters.",
			maxExternal))
	}
	if p.Currency == "" {
		p.Currency = string(money.USD)
	}
	if a, known := money.Lookup(p.Currency); known && !a.IsCrypto() {
		t.currency, ok = a, true
	} else {
		list.Add("currency_not_supported", "/currency",
			"The payroll's currency must be a fiat currency that the service knows, as in GET /api/currencies.")
	}

	t.method = method(p, c)
	if t.method != MethodCrypto && p.FundingNetwork != "" {
		list.Add("invalid_parameter", "/funding_network",
			"A network is named where a payroll is funded on a chain only.")
	}
	var fallback money.Asset
	switch {
	case t.method == MethodCrypto:
		fallback = money.BTC
	case t.method == MethodBank:
		t.byBank(p, banks, list)
		return t, ok
	case t.method == MethodDebit:
		t.byDebit(p, list)
		return t, ok
	case t.method == MethodWallet:
		fallback = t.currency
	case walletID.MatchString(t.method):
		if held == "" {
			list.Add("invalid_parameter", "/funding_method", "The company has no wallet in use of this id.")
			return t, ok
		}
		if p.FundingCurrency != "" && p.FundingCurrency != string(held) {
			list.Add("currency_not_supported", "/funding_currency", "The chosen wallet holds another currency.")
		}
		t.funding = held
		return t, ok
	default:
		list.Add("invalid_parameter", "/funding_method",
			"funding_method is crypto, bank, wallet, direct_debit, or the id of one of the company's wallets.")
		return t, ok
	}
	a, known := money.Lookup(cmp.Or(p.FundingCurrency, string(fallback)))
	on := accounts.Carrying(a)
	switch {
	case !known:
		list.Add("currency_not_supported", "/funding_currency",
			"The service does not know this currency; see GET /api/currencies.")
	case t.method == MethodCrypto && a != money.BTC && len(on) == 0:
		list.Add("currency_not_supported", "/funding_currency",
			"Payrolls are not funded in this currency on a chain; GET /api/currencies lists funding_networks of those in "+
				"which they are.")
	default:
		t.funding = a
		if t.method == MethodCrypto && a != money.BTC {
			t.network = network(p.FundingNetwork, a, on, list)
		} else if t.method == MethodCrypto && p.FundingNetwork != "" {
			list.Add("invalid_parameter", "/funding_network", "Bitcoin has one network here; leave the member out.")
		}
	}
	return t, ok
}

// byBank sets up funding by bank transfer in the payroll's own currency. The operator needs a bank account in that
// currency.
func (t *plan) byBank(p CreateParams, banks []bank.Account, list *apierr.List) {
	t.funding = t.currency
	if t.currency == "" {
		return
	}
	if _, ok := receiving(banks, t.currency); !ok {
		list.Add("currency_not_supported", "/funding_method",
			"This installation has no bank account in "+string(t.currency)+" that a payroll could be funded on.")
	}
	if p.FundingCurrency != "" && p.FundingCurrency != string(t.currency) {
		list.Add("currency_not_supported", "/funding_currency",
			"A bank transfer funds a payroll in the payroll's own currency.")
	}
}

// network returns the network on which a payroll is funded, chosen from the networks of its asset.
func network(asked string, a money.Asset, on []string, list *apierr.List) string {
	switch {
	case slices.Contains(on, asked):
		return asked
	case asked == "" && len(on) == 1:
		return on[0]
	case asked == "":
		list.Add("missing_field", "/funding_network", string(a)+" is on several networks; name one: "+strings.Join(on,
			", ")+".")
	default:
		list.Add("invalid_parameter", "/funding_network", "Payrolls are funded in "+string(a)+" on: "+strings.Join(on,
			", ")+".")
	}
	return ""
}

// newPlan makes the plan of a payroll and applies every rule that needs no clock, rate or balance. All problems are
// added to list; the plan is complete only if list stays empty.
func newPlan(p CreateParams, c identity.Company, held money.Asset, setup destination.Setup, banks []bank.Account,
	named map[string]invoice.Invoice, payees map[string]payee.Payee,
	all map[string][]destination.Destination, list *apierr.List,
) (plan, error) {
	t, readable := terms(p, c, held, setup.Accounts, banks, list)
	t.setup = setup
	switch n := len(p.ToPay); {
	case n == 0:
		list.Add("missing_field", "/to_pay", "to_pay needs at least one item.")
		return t, nil
	case n > MaxPayees:
		list.Add("invalid_parameter", "/to_pay", fmt.Sprintf("to_pay has at most %d items.", MaxPayees))
		return t, nil
	}
	t.items = make([]Item, len(p.ToPay))
	seen, external := map[[2]string]bool{}, map[string]bool{}
	for i, asked := range p.ToPay {
		it := &t.items[i]
		it.Payee = asked
		at := func(member string) string { return fmt.Sprintf("/to_pay/%d/%s", i, member) }

		if readable {
			if err := t.amount(it, p.prices, list, at); err != nil {
				return t, err
			}
		}
		t.payee(it, asked, p.CompanyID, payees, all, list, at)
		if asked.Country != "" && !country.Exists(asked.Country) {
			list.Add("country_not_supported", at("country"), "country is an ISO 3166-1 code of two capital letters.")
		}
		if asked.InvoiceID != "" {
			// Invoice numbers are unique only per payee: two payees may use the same number.
			if seen[[2]string{it.PayeeID, asked.InvoiceID}] {
				list.Add("invalid_parameter", at("invoice_id"), "Another item of this payroll pays the same invoice.")
			}
			seen[[2]string{it.PayeeID, asked.InvoiceID}] = true
			if err := checkInvoice(it, named, list, at); err != nil {
				return t, err
			}
		}
		if id := asked.ExternalPaymentID; id != "" {
			if external[id] {
				list.Add("invalid_parameter", at("external_payment_id"),
					"Another item of this payroll has the same external_payment_id.")
			}
			external[id] = true
		}
		metadata.Check(list, at("metadata"), asked.Metadata)
		for _, text := range [...]struct{ member, value string }{
			{"description", asked.Description}, {"category", asked.Category},
			{"external_payment_id", asked.ExternalPaymentID}, {"invoice_id", asked.InvoiceID},
		} {
			if len(text.value) > maxText {
				list.Add("invalid_parameter", at(text.member), fmt.Sprintf("%s has at most %d characters.",
					text.member, maxText))
			}
		}
	}
	if !list.Empty() {
		return t, nil
	}
	err := t.add(c)
	if f, isFault := apierr.As(err); isFault {
		list.Add(f.Code, "/to_pay", "The amounts add up to more than the service can carry.")
		return t, nil
	}
	if err != nil {
		return t, err
	}
	return t, t.share(all, payees)
}

var errNoAmount = apierr.New(apierr.Invalid, "missing_field", "amount_fiat is required.")

func parseAmount(a money.Asset, text string) (money.Amount, error) {
	if text == "" {
		return money.Amount{}, errNoAmount
	}
	amount, err := money.Parse(a, text)
	if err != nil {
		return money.Amount{}, err
	}
	if amount.Sign() <= 0 {
		return money.Amount{}, money.ErrNotPositive
	}
	return amount, nil
}

// payee finds the payee of an item and checks that the payee can be paid.
func (t *plan) payee(it *Item, asked Payee, payer string, payees map[string]payee.Payee,
	all map[string][]destination.Destination, list *apierr.List, at func(string) string,
) {
	member := "user_id"
	if asked.UserID == "" && asked.CompanyID != "" && asked.CompanyID != payer {
		member = "company_id"
	}
	if asked.UserID != "" && asked.CompanyID != "" && asked.CompanyID != payer {
		list.Add("invalid_parameter", at("company_id"),
			"Beside user_id, company_id can only be the paying company's own id.")
		return
	}
	it.PayeeID = payeeID(asked, payer)
	if it.PayeeID == "" {
		list.Add("missing_field", at("user_id"), "Name the payee in user_id, or a company recipient in company_id.")
		return
	}
	who, found := payees[it.PayeeID]
	switch {
	case !found:
		list.Add("invalid_parameter", at(member), "The company has no payee of this id.")
		return
	case who.Status == "inactive":
		list.Add("recipient_inactive", at(member), "This recipient is inactive and cannot be paid.")
		return
	}
	it.Name = who.Name
	if it.userID = who.UserID; it.userID == "" {
		it.userID = who.ID
	}
	owner, used := destinations(who, all)
	switch {
	case owner == "":
		list.Add("no_distribution", at(member), "This payee has no payment destination yet. Add a distribution first.")
	case !carried(used, t.setup):
		list.Add("currency_not_supported", at(member),
			"This payee wants to be paid in an asset that this installation does not pay out.")
	case it.Receive.Sign() > 0 && !takes(used, it.Receive.Asset()):
		list.Add("currency_not_supported", at("receive_currency"), fmt.Sprintf(
			"This payee's destinations take %s, not %s. Name that currency, or give amount_fiat.", symbols(used),
			it.Receive.Asset()))
	case onlyInternationalACH(used, t.banks, t.country):
		list.Add("currency_not_supported", at(member), "This payee is paid by ACH, which this installation offers only to "+
			"companies in the United States. Ask the payee for another destination, such as an account for wires.")
	}
	it.Owner = owner
}

// add computes the volume, the fee (rounded once), the total, and each item's part of the fee. The fee includes the
// fee of the company's platform.
func (t *plan) add(c identity.Company) error {
	t.platformID, t.platformBps = c.PlatformID, c.PlatformFeeBps
	amounts := make([]money.Amount, len(t.items))
	weights := make([]int64, len(t.items))
	for i := range t.items {
		amounts[i] = t.items[i].Amount
		weights[i] = c.FeeBps
		if t.items[i].IsPremium {
			weights[i] = c.PremiumBps
		}
		weights[i] = min(weights[i]+c.PlatformFeeBps, maxFeeBps)
	}
	var err error
	if t.volume, err = money.Sum(t.currency, amounts...); err != nil {
		return err
	}
	fees, err := fees(amounts, weights)
	if err != nil {
		return err
	}
	t.fees = money.Zero(t.currency)
	for i, fee := range fees {
		t.items[i].Fee = money.New(t.currency, fee)
		if t.fees, err = t.fees.Add(t.items[i].Fee); err != nil {
			return err
		}
	}
	t.total, err = t.volume.Add(t.fees)
	return err
}

// fees divides one fee over all amounts. The fee is rounded once, half to even. An item's part is the rounded fee of
// the amounts up to and including its own, minus the rounded fee of the amounts before it. So the parts sum to the
// fee exactly, and each is off by at most one unit. The caller has checked that the amounts sum within int64, so sum
// × bps is below 2^77.
func fees(amounts []money.Amount, bps []int64) ([]int64, error) {
	parts := make([]int64, len(amounts))
	var hi, lo, before uint64
	for i, a := range amounts {
		if bps[i] < 0 || bps[i] > maxFeeBps {
			return nil, fmt.Errorf("payroll: a fee of %d basis points", bps[i])
		}
		ph, pl := bits.Mul64(uint64(a.Units()), uint64(bps[i]))
		var carry uint64
		lo, carry = bits.Add64(lo, pl, 0)
		hi, _ = bits.Add64(hi, ph, carry)
		upTo, rest := bits.Div64(hi, lo, basisPoints)
		if 2*rest > basisPoints || 2*rest == basisPoints && upTo%2 == 1 {
			upTo++
		}
		parts[i] = int64(upTo - before)
		before = upTo
	}
	return parts, nil
}

// share splits every item over its payee's destinations.
func (t *plan) share(all map[string][]destination.Destination, payees map[string]payee.Payee) error {
	for i := range t.items {
		it := &t.items[i]
		_, used := destinations(payees[it.PayeeID], all)
		var err error
		if it.Shares, err = divide(it.Amount, it.Receive, used); err != nil {
			return err
		}
	}
	return nil
}

// split divides an amount over destinations. Destinations with a fixed amount in its currency are paid first, in the
// order of their creation, as far as the amount suffices. The rest is divided by the allocations with the
// largest-remainder method. Shares of zero are dropped: one cent over three destinations pays only one of them.
func split(amount money.Amount, used []destination.Destination) ([]Share, error) {
	if len(used) == 1 {
		return []Share{{Destination: used[0], Amount: amount}}, nil
	}
	weights, fixed := make([]int64, len(used)), make([]money.Amount, len(used))
	rest := amount
	var err error
	for i, d := range used {
		weights[i], fixed[i] = int64(d.Allocation), money.Zero(amount.Asset())
		if d.Fixed.Sign() <= 0 || d.Fixed.Asset() != amount.Asset() {
			continue
		}
		if fixed[i] = d.Fixed; fixed[i].Cmp(rest) > 0 {
			fixed[i] = rest
		}
		if rest, err = rest.Sub(fixed[i]); err != nil {
			return nil, err
		}
	}
	parts, err := rest.Split(weights)
	if err != nil {
		return nil, err
	}
	shares := make([]Share, 0, len(parts))
	for i, part := range parts {
		if part, err = part.Add(fixed[i]); err != nil {
			return nil, err
		}
		if part.Sign() > 0 {
			shares = append(shares, Share{Destination: used[i], Amount: part})
		}
	}
	return shares, nil
}
