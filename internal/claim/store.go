package claim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// New claims are buffered and inserted at the commit, together with the claims of other requests in the same group
// commit.

const claimColumns = `company_id, claim_id, payer_id, description, return_url, redirects, external_id, metadata,
	line_items, payer_email, link_id, expires_at, state, exception, reverted,
	version, currency, amount,
	fee, fee_bps, funding_asset, settle_asset, address, network, tolerance_bps, confirmations, late_policy,
	grace_seconds, tx_hash, seen, settlement,
	wallet, places, suspense, excess, shortfall, exchanged, merchant, revenue, merchant_debt, refund_debt,
	refunded, refunding, returned, returned_value,
	cancelled_at, invalid_at, created_at, updated_at`

var claimRows = db.BulkInsert("claims", strings.FieldsFunc(claimColumns,
	func(r rune) bool { return strings.ContainsRune(", \n\t", r) })...)

func insertClaim(tx *db.Tx, c *Claim) {
	b := &c.booked
	claimRows.Add(tx, []any{
		c.CompanyID, c.ID, c.PayerID, c.Description, c.ReturnURL, c.Redirects, c.ExternalID, metadata.Text(c.Metadata),
		c.items(), c.email, c.LinkID, micros(c.ExpiresAt), string(c.State), string(c.Exception), c.Reverted,
		c.Version,
		string(c.Amount.Asset()), c.Amount.Units(), c.Fee.Units(), c.feeBps, string(c.Funding), string(c.SettleIn),
		c.Address, c.Network,
		c.Policy.ToleranceBps, c.Policy.Confirmations, string(c.Policy.Late), c.Policy.GraceSeconds, c.TxHash,
		c.Seen.Units(), c.settlement,
		b.wallet.Units(), writePlaces(b.places), b.suspense.Units(), b.excess.Units(), b.shortfall.Units(),
		b.exchanged.Units(), b.merchant.Units(), b.revenue.Units(),
		b.merchantDebt.Units(), b.refundDebt.Units(), c.Refunded.Units(), c.Refunding, c.Returned.Units(),
		c.ReturnedValue.Units(), micros(c.CancelledAt), micros(c.InvalidAt), db.Micros(c.CreatedAt), db.Micros(c.UpdatedAt),
	})
}

// waitingClaims counts the buffered claims of this transaction to which a limit applies.
func waitingClaims(tx *db.Tx, g limitCheck) (n int64) {
	const linkID = 10 // column of claimRows
	for _, row := range claimRows.Buffered(tx) {
		if row[0] == g.companyID && (row[linkID] != "") == g.linked {
			n++
		}
	}
	return n
}

// lockLimits waits for concurrent transactions that are about to commit claims of these companies, and makes later
// transactions wait.
func lockLimits(ctx context.Context, tx *db.Tx, all []limitCheck) error {
	rows := make([][]any, len(all))
	for i, g := range all {
		rows[i] = []any{g.companyID}
	}
	for values, args := range db.BindRows(tx, rows, 1) {
		if _, err := tx.Exec(ctx, "INSERT INTO claim_rate_limits (company_id) "+values+`
			ON CONFLICT (company_id) DO UPDATE SET company_id = excluded.company_id`, args...); err != nil {
			return err
		}
	}
	return nil
}

func scanClaim(scan func(...any) error) (Claim, error) {
	var c Claim
	var state, exception, late, denom, funding, settle string
	var amount, fee, seen, wallet, suspense, excess, shortfall, exchanged, merchant, revenue, merchantDebt,
		refundDebt, refunded, returned, returnedValue int64
	var texts, items, places string
	var expires, cancelled, invalid, created, updated int64
	err := scan(&c.CompanyID, &c.ID, &c.PayerID, &c.Description, &c.ReturnURL, &c.Redirects,
		&c.ExternalID, &texts, &items,
		&c.email, &c.LinkID, &expires, &state, &exception, &c.Reverted,
		&c.Version, &denom, &amount,
		&fee, &c.feeBps, &funding, &settle, &c.Address, &c.Network, &c.Policy.ToleranceBps, &c.Policy.Confirmations,
		&late, &c.Policy.GraceSeconds,
		&c.TxHash, &seen, &c.settlement, &wallet, &places, &suspense, &excess, &shortfall, &exchanged, &merchant, &revenue,
		&merchantDebt, &refundDebt, &refunded,
		&c.Refunding, &returned, &returnedValue, &cancelled, &invalid, &created, &updated)
	if err != nil {
		return c, err
	}
	c.State, c.Exception, c.Policy.Late = State(state), Exception(exception), LatePolicy(late)
	c.Funding, c.SettleIn = money.Asset(funding), money.Asset(settle)
	c.Amount, c.Fee = money.New(money.Asset(denom), amount), money.New(money.Asset(denom), fee)
	c.Seen, c.Refunded = money.New(c.Funding, seen), money.New(c.Funding, refunded)
	c.Returned, c.ReturnedValue = money.New(c.Funding, returned), money.New(money.Asset(denom), returnedValue)
	c.booked = position{
		wallet: money.New(c.Funding, wallet), suspense: money.New(c.Funding, suspense),
		excess:    money.New(c.Funding, excess),
		shortfall: money.New(c.Funding, shortfall), exchanged: money.New(c.Funding, exchanged),
		merchant: money.New(c.SettleIn, merchant), revenue: money.New(c.SettleIn, revenue),
		merchantDebt: money.New(c.SettleIn, merchantDebt), refundDebt: money.New(c.Funding, refundDebt),
	}
	if c.booked.places, err = readPlaces(c.Funding, places); err != nil {
		return c, err
	}
	c.CancelledAt, c.InvalidAt, c.CreatedAt, c.UpdatedAt = timeOf(cancelled), timeOf(invalid), db.Time(created),
		db.Time(updated)
	c.ExpiresAt = timeOf(expires)
	if c.Metadata, err = metadata.Parse(texts); err != nil {
		return c, err
	}
	if items != "" {
		err = json.Unmarshal([]byte(items), &c.Items)
	}
	return c, err
}

// writePlaces and readPlaces convert amounts by chain to and from JSON. "" means none.
func writePlaces(places map[string]money.Amount) string {
	units := map[string]int64{}
	for name, a := range places {
		units[name] = a.Units()
	}
	if len(units) == 0 {
		return ""
	}
	text, err := json.Marshal(units)
	if err != nil {
		panic("claim: numbers have a JSON form: " + err.Error())
	}
	return string(text)
}

func readPlaces(asset money.Asset, text string) (map[string]money.Amount, error) {
	if text == "" {
		return nil, nil
	}
	var units map[string]int64
	if err := json.Unmarshal([]byte(text), &units); err != nil {
		return nil, err
	}
	places := map[string]money.Amount{}
	for name, n := range units {
		places[name] = money.New(asset, n)
	}
	return places, nil
}

// othersOf returns the query for the claim's money in assets other than the asset that pays the claim.
func othersOf(c *Claim) db.Statement {
	return db.Statement{
		Query: `SELECT asset, wallet, places, suspense, excess, merchant, merchant_debt, refund_debt, refunded, returned
			FROM claim_other_assets WHERE company_id = $1 AND claim_id = $2`,
		Args: []any{c.CompanyID, c.ID}, Row: func(r *db.Rows) error {
			var name, places string
			var wallet, suspense, excess, merchant, merchantDebt, refundDebt, refunded, returned int64
			if err := r.Scan(&name, &wallet, &places, &suspense, &excess, &merchant, &merchantDebt, &refundDebt, &refunded,
				&returned); err != nil {
				return err
			}
			asset := money.Asset(name)
			h := c.holding(asset)
			b, settle := &h.booked, h.booked.merchant.Asset()
			b.wallet, b.suspense, b.excess = money.New(asset, wallet), money.New(asset, suspense), money.New(asset, excess)
			b.merchant, b.merchantDebt = money.New(settle, merchant), money.New(settle, merchantDebt)
			b.refundDebt = money.New(asset, refundDebt)
			h.refunded, h.returned = money.New(asset, refunded), money.New(asset, returned)
			var err error
			b.places, err = readPlaces(asset, places)
			c.others[asset] = h
			return err
		}}
}

// storeOthers stores the claim's money in assets other than its payment asset. The parameter was contains what is
// stored already.
func storeOthers(ctx context.Context, tx *db.Tx, c *Claim, was map[money.Asset]holding) error {
	for asset := range was {
		if _, ok := c.others[asset]; !ok {
			if _, err := tx.Exec(ctx, "DELETE FROM claim_other_assets WHERE company_id = $1 AND claim_id = $2 AND asset = $3",
				c.CompanyID, c.ID, string(asset)); err != nil {
				return err
			}
		}
	}
	for asset, h := range c.others {
		if old, ok := was[asset]; ok && old.equal(h) {
			continue
		}
		b := h.booked
		if _, err := tx.Exec(ctx, `INSERT INTO claim_other_assets (company_id, claim_id, asset, wallet, places, suspense,
				excess, merchant, merchant_debt, refund_debt, refunded, returned) VALUES `+db.Placeholders(1, 12, 1)+`
			ON CONFLICT (company_id, claim_id, asset) DO UPDATE SET wallet = excluded.wallet, places = excluded.places,
				suspense = excluded.suspense, excess = excluded.excess, merchant = excluded.merchant,
				merchant_debt = excluded.merchant_debt, refund_debt = excluded.refund_debt, refunded = excluded.refunded,
				returned = excluded.returned`,
			c.CompanyID, c.ID, string(asset), b.wallet.Units(), writePlaces(b.places), b.suspense.Units(), b.excess.Units(),
			b.merchant.Units(), b.merchantDebt.Units(), b.refundDebt.Units(), h.refunded.Units(),
			h.returned.Units()); err != nil {
			return err
		}
	}
	return nil
}

// micros and timeOf convert times from and to microseconds. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}

func timeOf(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return db.Time(n)
}

func find(ctx context.Context, tx *db.Tx, companyID, id string) (*Claim, error) {
	return one(tx.QueryRow(ctx, "SELECT "+claimColumns+" FROM claims WHERE company_id = $1 AND claim_id = $2",
		companyID, id))
}

// lock reads a claim like find, and makes other writers of the claim wait until this transaction ends. Rows read after
// lock are current.
func lock(ctx context.Context, tx *db.Tx, companyID, id string) (*Claim, error) {
	return one(tx.QueryRow(ctx, lockQuery, companyID, id))
}

// claimID identifies a claim of a company.
type claimID struct{ companyID, id string }

// lockAll locks claims. It returns each claim once, and omits IDs that do not exist.
func lockAll(ctx context.Context, tx *db.Tx, ids []claimID) (all []*Claim, err error) {
	slices.SortFunc(ids, func(a, b claimID) int { // a fixed order of locks prevents deadlocks
		return cmp.Or(strings.Compare(a.companyID, b.companyID), strings.Compare(a.id, b.id))
	})
	var questions []db.Statement
	for _, id := range slices.Compact(ids) {
		questions = append(questions, db.CollectInto(&all, func(r *db.Rows) (*Claim, error) {
			c, err := scanClaim(r.Scan)
			return &c, err
		}, lockQuery, id.companyID, id.id))
	}
	err = tx.Batch(ctx, questions)
	return all, err
}

const lockQuery = "UPDATE claims SET version = version WHERE company_id = $1 AND claim_id = $2 RETURNING " +
	claimColumns

// findAny reads a claim of any company, for a payer who knows only the claim's ID.
func findAny(ctx context.Context, tx *db.Tx, id string) (*Claim, error) {
	ctx = db.AcrossCompanies(ctx, "a payer knows only the secret ID of the claim, which names one claim")
	return one(tx.QueryRow(ctx, "SELECT "+claimColumns+" FROM claims WHERE claim_id = $1", id))
}

func one(r db.Row) (*Claim, error) {
	c, err := scanClaim(r.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return nil, ErrNotFound
	}
	return &c, err
}

// update writes a claim's next version. It fails if the claim has changed since it was read.
func update(ctx context.Context, tx *db.Tx, c *Claim, from State) error {
	c.UpdatedAt = tx.Now()
	b := &c.booked
	err := tx.ExecOne(ctx, `UPDATE claims SET state = $1, exception = $2, reverted = $3, tx_hash = $4, seen = $5,
		wallet = $6,
			suspense = $7,
		excess = $8, shortfall = $9, exchanged = $10, merchant = $11, revenue = $12, merchant_debt = $13,
		refund_debt = $14, refunded = $15,
		refunding = $16, cancelled_at = $17, invalid_at = $18, updated_at = $19, places = $20,
		returned = $21, returned_value = $22, funding_asset = $23, settle_asset = $24, version = version + 1
		WHERE company_id = $25 AND claim_id = $26 AND version = $27 AND state = $28`,
		string(c.State), string(c.Exception), c.Reverted, c.TxHash, c.Seen.Units(), b.wallet.Units(),
		b.suspense.Units(),
		b.excess.Units(), b.shortfall.Units(), b.exchanged.Units(), b.merchant.Units(), b.revenue.Units(),
		b.merchantDebt.Units(),
		b.refundDebt.Units(), c.Refunded.Units(), c.Refunding, micros(c.CancelledAt), micros(c.InvalidAt),
		db.Micros(c.UpdatedAt), writePlaces(b.places), c.Returned.Units(), c.ReturnedValue.Units(),
		string(c.Funding), string(c.SettleIn), c.CompanyID, c.ID, c.Version, string(from))
	c.Version++
	return err
}

func list(ctx context.Context, tx *db.Tx, companyID string, f Filter) ([]Claim, int64, error) {
	l := &db.List{Columns: claimColumns, Table: "claims", ID: "claim_id", Page: f.Page}
	l.Where("company_id = ?", companyID)
	if f.Status != "" {
		l.Where("state = ?", string(f.Status))
	}
	if f.PayerID != "" {
		l.Where("payer_id = ?", f.PayerID)
	}
	if f.LinkID != "" {
		l.Where("link_id = ?", f.LinkID)
	}
	if f.ExternalID != "" {
		l.Where("external_id = ?", f.ExternalID)
	}
	if f.Search != "" {
		is, pattern := tx.Begins(f.Search)
		l.Where("(external_id "+is+" ? OR payer_id "+is+" ? OR claim_id "+is+" ?)", pattern, pattern, pattern)
	}
	if f.Currency != "" {
		l.Where("currency = ?", string(f.Currency))
	}
	if f.Amount.Asset() != "" {
		l.Where("currency = ?", string(f.Amount.Asset()))
		l.Where("amount = ?", f.Amount.Units())
	}
	metadata.Conditions("claim_id", companyID, f.Metadata, l.Where)
	l.Created(f.From, f.To)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Claim, error) { return scanClaim(r.Scan) })
}

// reserve stores that a claim has an external ID, with the digest of the claim's content. If another claim has the
// external ID, it returns that claim's ID and digest.
func reserve(ctx context.Context, tx *db.Tx, c *Claim, digest string) (claimID, firstDigest string, err error) {
	n, err := tx.Exec(ctx, `INSERT INTO claim_external_ids (company_id, external_id, claim_id, digest)
		VALUES ($1, $2, $3, $4) ON CONFLICT (company_id, external_id) DO NOTHING`,
		c.CompanyID, c.ExternalID, c.ID, digest)
	if err != nil || n == 1 {
		return c.ID, digest, err
	}
	return reserved(ctx, tx, c.CompanyID, c.ExternalID)
}

// reserved returns the ID of the claim that has an external ID, with the digest of its content, or "" if there is
// none.
func reserved(ctx context.Context, tx *db.Tx, companyID, externalID string) (claimID, digest string, err error) {
	err = tx.QueryRow(ctx, "SELECT claim_id, digest FROM claim_external_ids WHERE company_id = $1 AND external_id = $2",
		companyID, externalID).Scan(&claimID, &digest)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return claimID, digest, err
}

// nthNewest returns the creation time of the n-th newest claim to which a limit applies, or the zero time if fewer
// than n were created in the last minute.
func nthNewest(ctx context.Context, tx *db.Tx, g limitCheck, n int64) (time.Time, error) {
	var at int64
	err := tx.QueryRow(ctx,
		`SELECT created_at FROM claims WHERE company_id = $1 AND created_at > $2 AND (link_id <> '') = $3
			ORDER BY created_at DESC LIMIT 1 OFFSET $4`, g.companyID, db.Micros(tx.Now().Add(-time.Minute)), g.linked,
		n-1).Scan(&at)
	if errors.Is(err, db.ErrNoRows) {
		return time.Time{}, nil
	}
	return timeOf(at), err
}

// countOpen counts the claims to which a limit applies that wait for money. It stops counting at limit.
func countOpen(ctx context.Context, tx *db.Tx, g limitCheck, limit int64) (n int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM claims
		WHERE company_id = $1 AND state IN ('awaiting_payment', 'partially_paid', 'confirming')
			AND (link_id <> '') = $2
		LIMIT $3) AS waiting`, g.companyID, g.linked, limit).Scan(&n)
	return n, err
}

// acceptedBy returns a query that stores the late deposits accepted for a claim in all: the texts of their rates by
// deposit ID.
func acceptedBy(c *Claim, all map[string]string) db.Statement {
	return db.Statement{Query: "SELECT deposit_id, rate FROM claim_accepted_deposits WHERE company_id = $1 AND claim_id " +
		"= $2", Args: []any{c.CompanyID, c.ID},
		Row: func(r *db.Rows) error {
			var id, text string
			if err := r.Scan(&id, &text); err != nil {
				return err
			}
			all[id] = text
			return nil
		}}
}

// acceptedRates converts the texts of rates of accepted late deposits to rates, by deposit ID.
func acceptedRates(c *Claim, all []deposit.Deposit, texts map[string]string) (map[string]money.Rate, error) {
	rates := map[string]money.Rate{}
	for _, d := range all {
		text, ok := texts[d.ID]
		if !ok {
			continue
		}
		rates[d.ID] = money.Rate{}
		if text != "" {
			var err error
			if rates[d.ID], err = money.ParseRate(d.Amount.Asset(), c.Amount.Asset(), text); err != nil {
				return nil, err
			}
		}
	}
	return rates, nil
}

func insertAccepted(ctx context.Context, tx *db.Tx, c *Claim, depositID string, rate money.Rate) error {
	text := ""
	if !rate.IsZero() {
		text = rate.String()
	}
	_, err := tx.Exec(ctx,
		"INSERT INTO claim_accepted_deposits (company_id, claim_id, deposit_id, rate, accepted_at) VALUES ($1, $2, $3, $4, "+
			"$5)",
		c.CompanyID, c.ID, depositID, text, db.Micros(tx.Now()))
	if db.IsUnique(err) {
		return db.ErrConflict
	}
	return err
}

var merchants = db.NewLoader(func(tx *db.Tx, companies []string, found func(string, Settings)) (all []db.Statement) {
	for in, args := range db.BindList(tx, companies, 1) {
		all = append(all,
			db.Statement{Query: `SELECT company_id, tolerance_bps, confirmations, late_policy, grace_seconds,
				settle_in, origins, schedule, time_zone, day, convert_to,
			destination_id, support_email, version, updated_at FROM merchant_settings
			WHERE company_id IN ` + in, Args: args, Row: func(r *db.Rows) error {
				var s Settings
				var late, settle, origins, schedule, convertTo string
				var day, updated int64
				err := r.Scan(&s.CompanyID, &s.ToleranceBps, &s.Confirmations, &late, &s.GraceSeconds, &settle,
					&origins,
					&schedule, &s.TimeZone, &day, &convertTo, &s.DestinationID, &s.SupportEmail, &s.Version, &updated)
				if err != nil {
					return err
				}
				s.Day, s.ConvertTo = time.Weekday(day), money.Asset(convertTo)
				s.Late, s.SettleIn, s.Schedule, s.UpdatedAt = LatePolicy(late), settle, Schedule(schedule), db.Time(updated)
				s.Origins, err = readOrigins(origins)
				found(s.CompanyID, s)
				return err
			}})
	}
	return all
})

// saveSettings writes the next version of settings. It fails if they have changed since they were read.
func saveSettings(ctx context.Context, tx *db.Tx, s Settings) error {
	n, err := tx.Exec(ctx,
		`INSERT INTO merchant_settings (company_id, tolerance_bps, confirmations, late_policy, grace_seconds,
			settle_in, origins,
		schedule, destination_id, support_email, version, updated_at, time_zone, day, convert_to)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (company_id) DO UPDATE SET tolerance_bps = excluded.tolerance_bps,
		confirmations = excluded.confirmations,
		late_policy = excluded.late_policy, grace_seconds = excluded.grace_seconds,
		settle_in = excluded.settle_in, origins = excluded.origins,
		schedule = excluded.schedule, time_zone = excluded.time_zone, day = excluded.day,
		convert_to = excluded.convert_to, destination_id = excluded.destination_id,
		support_email = excluded.support_email, version = excluded.version, updated_at = excluded.updated_at
		WHERE merchant_settings.version = excluded.version - 1`,
		s.CompanyID, s.ToleranceBps, s.Confirmations, string(s.Late), s.GraceSeconds, s.SettleIn,
		writeOrigins(s.Origins),
		string(s.Schedule), s.DestinationID, s.SupportEmail, s.Version+1, db.Micros(s.UpdatedAt), s.TimeZone,
		int64(s.Day), string(s.ConvertTo))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	return err
}

const refundColumns = `company_id, claim_id, refund_id, state, asset, network, amount, fee, token_digest, address,
	output_id, txid, withheld, version, expires_at, created_at, currency, value, cost_asset, from_claims, from_balance,
	created_by, mailed_digest`

// refunds returns the refunds of a claim, oldest first.
func refunds(ctx context.Context, tx *db.Tx, c *Claim) ([]Refund, error) {
	return selectRefunds(ctx, tx, "company_id = $1 AND claim_id = $2 ORDER BY refund_id", c.CompanyID, c.ID)
}

func selectRefunds(ctx context.Context, tx *db.Tx, where string, args ...any) ([]Refund, error) {
	rows, err := tx.Query(ctx, "SELECT "+refundColumns+" FROM claim_refunds WHERE "+where, args...)
	return db.Collect(rows, err, func(rows *db.Rows) (r Refund, err error) {
		var state, asset, currency, costAsset string
		var amount, fee, expires, created, value, claims, balance int64
		if err = rows.Scan(&r.CompanyID, &r.ClaimID, &r.ID, &state, &asset, &r.Network, &amount, &fee, &r.digest,
			&r.Address, &r.outputID, &r.TxHash, &r.Withheld, &r.Version, &expires, &created, &currency, &value, &costAsset,
			&claims, &balance, &r.CreatedBy, &r.mailedDigest); err != nil {
			return r, err
		}
		r.State, r.Amount, r.Fee = RefundState(state), money.New(money.Asset(asset), amount),
			money.New(money.Asset(asset), fee)
		r.ExpiresAt, r.CreatedAt = db.Time(expires), db.Time(created)
		if currency == "" {
			return r, nil
		}
		r.Value = money.New(money.Asset(currency), value)
		r.FromClaims, r.FromBalance = money.New(money.Asset(costAsset), claims), money.New(money.Asset(costAsset), balance)
		r.Cost, err = r.FromClaims.Add(r.FromBalance)
		return r, err
	})
}

func insertRefund(ctx context.Context, tx *db.Tx, r Refund) error {
	units := func(a money.Amount) int64 {
		if a.Asset() == "" {
			return 0
		}
		return a.Units()
	}
	_, err := tx.Exec(ctx,
		"INSERT INTO claim_refunds ("+refundColumns+", updated_at) VALUES "+db.Placeholders(1, 24, 1),
		r.CompanyID, r.ClaimID, r.ID, string(r.State), string(r.Amount.Asset()), r.Network, r.Amount.Units(), r.Fee.Units(),
		r.digest, r.Address, r.outputID,
		r.TxHash, r.Withheld, r.Version, db.Micros(r.ExpiresAt), db.Micros(r.CreatedAt), string(r.Value.Asset()),
		units(r.Value), string(r.Cost.Asset()), units(r.FromClaims), units(r.FromBalance), r.CreatedBy, r.mailedDigest,
		db.Micros(tx.Now()))
	if db.IsUnique(err) {
		return db.ErrConflict
	}
	return err
}

func updateRefund(ctx context.Context, tx *db.Tx, r *Refund, from RefundState) error {
	n, err := tx.Exec(ctx,
		`UPDATE claim_refunds SET state = $1, amount = $2, fee = $3, address = $4, output_id = $5, txid = $6,
			updated_at = $7, withheld = $8, expires_at = $9, mailed_digest = $10, network = $11,
		version = version + 1 WHERE company_id = $12 AND claim_id = $13 AND refund_id = $14 AND version = $15
		AND state = $16`,
		string(r.State), r.Amount.Units(), r.Fee.Units(), r.Address, r.outputID, r.TxHash, db.Micros(tx.Now()),
		r.Withheld, db.Micros(r.ExpiresAt), r.mailedDigest, r.Network,
		r.CompanyID, r.ClaimID, r.ID, r.Version, string(from))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	r.Version++
	return err
}

func earnedByDay(ctx context.Context, tx *db.Tx, companyID string, from time.Time) ([]DayEarned, error) {
	rows, err := tx.Query(ctx, `SELECT settle_asset, created_at / 86400000000 AS day, CAST(SUM(merchant) AS BIGINT)
		FROM claims WHERE company_id = $1 AND created_at >= $2 AND merchant > 0
		GROUP BY settle_asset, created_at / 86400000000 ORDER BY settle_asset, day`, companyID, db.Micros(from))
	return db.Collect(rows, err, func(r *db.Rows) (d DayEarned, err error) {
		var asset string
		var day, units int64
		err = r.Scan(&asset, &day, &units)
		d.Day, d.Amount = time.Unix(day*86400, 0).UTC(), money.New(money.Asset(asset), units)
		return d, err
	})
}

const settlementColumns = `company_id, settlement_id, earned_asset, earned, asset, amount, rate, withdrawal_id,
	due_at, created_at`

func scanSettlement(scan func(...any) error) (x Settlement, err error) {
	var earnedIn, asset, rate string
	var earned, amount, due, created int64
	if err = scan(&x.CompanyID, &x.ID, &earnedIn, &earned, &asset, &amount, &rate, &x.WithdrawalID, &due,
		&created); err != nil {
		return x, err
	}
	x.Earned, x.Amount = money.New(money.Asset(earnedIn), earned), money.New(money.Asset(asset), amount)
	x.due, x.CreatedAt = timeOf(due), db.Time(created)
	if rate != "" {
		x.Rate, err = money.ParseRate(x.Earned.Asset(), x.Amount.Asset(), rate)
	}
	return x, err
}

func insertSettlement(ctx context.Context, tx *db.Tx, x Settlement) error {
	rate := ""
	if !x.Rate.IsZero() {
		rate = x.Rate.String()
	}
	_, err := tx.Exec(ctx, "INSERT INTO settlements ("+settlementColumns+") VALUES "+db.Placeholders(1, 10, 1),
		x.CompanyID, x.ID, string(x.Earned.Asset()), x.Earned.Units(), string(x.Amount.Asset()), x.Amount.Units(), rate,
		x.WithdrawalID, micros(x.due), db.Micros(x.CreatedAt))
	if db.IsUnique(err) {
		return db.ErrConflict
	}
	return err
}

func findSettlement(ctx context.Context, tx *db.Tx, companyID, id string) (Settlement, error) {
	x, err := scanSettlement(tx.QueryRow(ctx, "SELECT "+settlementColumns+
		" FROM settlements WHERE company_id = $1 AND settlement_id = $2", companyID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		err = errNoSettlement
	}
	return x, err
}

// settled reports whether a company's due settlement in a currency has been made.
func settled(ctx context.Context, tx *db.Tx, due Settings, earned money.Asset) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM settlements
		WHERE company_id = $1 AND due_at = $2 AND earned_asset = $3`,
		due.CompanyID, micros(due.settlesAt), string(earned)).Scan(&n)
	return n > 0, err
}

func listSettlements(ctx context.Context, tx *db.Tx, companyID string, page db.Page) ([]Settlement, int64, error) {
	l := &db.List{Columns: settlementColumns, Table: "settlements", ID: "settlement_id", Page: page}
	l.Where("company_id = ?", companyID)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Settlement, error) { return scanSettlement(r.Scan) })
}

// settingsDue returns the settings of all companies whose scheduled settlement is due. Only CompanyID and settlesAt
// are set.
func settingsDue(ctx context.Context, tx *db.Tx) ([]Settings, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, settles_at FROM merchant_settings
		WHERE schedule <> 'manual' AND settles_at <= $1 ORDER BY company_id`, db.Micros(tx.Now()))
	return db.Collect(rows, err, func(r *db.Rows) (s Settings, err error) {
		var at int64
		err = r.Scan(&s.CompanyID, &at)
		s.settlesAt = timeOf(at)
		return s, err
	})
}

// lockDue locks and returns the current settings of a company whose settlement is due. It returns zero Settings if
// the settlement is no longer due.
func lockDue(ctx context.Context, tx *db.Tx, due Settings) (Settings, error) {
	n, err := tx.Exec(ctx, `UPDATE merchant_settings SET settles_at = settles_at
		WHERE company_id = $1 AND settles_at = $2 AND schedule <> 'manual'`, due.CompanyID, micros(due.settlesAt))
	if err != nil || n == 0 {
		return Settings{}, err
	}
	s, _, err := merchants.Get(ctx, tx, due.CompanyID)
	return s, err
}

// saveNextSettlement stores the time of the next scheduled settlement of a company, zero for none.
func saveNextSettlement(ctx context.Context, tx *db.Tx, companyID string, at time.Time) error {
	return tx.ExecOne(ctx, "UPDATE merchant_settings SET settles_at = $1 WHERE company_id = $2", micros(at), companyID)
}

// orders returns the external IDs of claims by claim ID.
func orders(ctx context.Context, tx *db.Tx, companyID string, claimIDs []string) (map[string]string, error) {
	return namesOf(ctx, tx, "SELECT claim_id, external_id FROM claims WHERE company_id = $1 AND claim_id IN ", companyID,
		claimIDs)
}

// claimsOfRefunds returns the claim IDs of refunds by refund ID.
func claimsOfRefunds(ctx context.Context, tx *db.Tx, companyID string, refundIDs []string) (map[string]string, error) {
	return namesOf(ctx, tx, "SELECT refund_id, claim_id FROM claim_refunds WHERE company_id = $1 AND refund_id IN ",
		companyID, refundIDs)
}

func namesOf(ctx context.Context, tx *db.Tx, query, companyID string, ids []string) (map[string]string, error) {
	names := map[string]string{}
	if len(ids) == 0 {
		return names, nil
	}
	var all []db.Statement
	for in, args := range db.BindList(tx, ids, 2) {
		all = append(all, db.Statement{Query: query + in, Args: append([]any{companyID}, args...),
			Row: func(r *db.Rows) error {
				var id, name string
				err := r.Scan(&id, &name)
				names[id] = name
				return err
			}})
	}
	return names, tx.Batch(ctx, all)
}

// RefundsWithheld returns the refunds of all companies that wait for the approval of two staff members, the longest
// waiting first.
func RefundsWithheld(ctx context.Context, tx *db.Tx, limit int) ([]Refund, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, claim_id, refund_id, asset, amount, updated_at FROM claim_refunds
		WHERE withheld ORDER BY updated_at, refund_id LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(rows *db.Rows) (r Refund, err error) {
		var asset string
		var amount, since int64
		err = rows.Scan(&r.CompanyID, &r.ClaimID, &r.ID, &asset, &amount, &since)
		r.State, r.Withheld, r.Amount, r.Since = RefundAccepted, true, money.New(money.Asset(asset), amount),
			db.Time(since)
		return r, err
	})
}

// unsentRefunds returns the IDs of the outputs of a company's accepted refunds of its own money that are not paid
// yet.
func unsentRefunds(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT output_id FROM claim_refunds WHERE company_id = $1 AND state = 'accepted'
		AND output_id <> '' AND currency <> '' ORDER BY output_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// heldRefunds returns the IDs of the outputs of a company's refunds that are on hold.
func heldRefunds(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT o.output_id FROM claim_refunds r JOIN outputs o ON o.company_id = r.company_id
			AND o.output_id = r.output_id
		WHERE r.company_id = $1 AND r.output_id <> '' AND o.on_hold ORDER BY o.output_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// withheld returns the claim ID of a refund that waits for two staff members, or "" if it does not wait for them.
func withheld(ctx context.Context, tx *db.Tx, companyID, refundID string) (claimID string, err error) {
	err = tx.QueryRow(ctx, "SELECT claim_id FROM claim_refunds WHERE company_id = $1 AND refund_id = $2 AND withheld",
		companyID, refundID).Scan(&claimID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return claimID, err
}
