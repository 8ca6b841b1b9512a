package destination

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
)

// countIn adds one to the owner's number of destinations. It locks the owner's row until the commit, so that
// concurrent transactions cannot exceed the limit together. It returns ErrLimit if the owner already has the maximum
// number.
func countIn(ctx context.Context, tx *db.Tx, ownerID string) (count, version int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO destination_owners (owner_id, destinations, version) VALUES ($1, 1, 1)
		ON CONFLICT (owner_id) DO UPDATE SET destinations = destination_owners.destinations + 1,
			version = destination_owners.version + 1
			WHERE destination_owners.destinations < 3
		RETURNING destinations, version`, ownerID).Scan(&count, &version)
	if errors.Is(err, db.ErrNoRows) {
		return 0, 0, ErrLimit
	}
	return count, version, err
}

// queueUp locks the owner's row until the commit and returns the next version. Every change locks this row before it
// locks any destination, so changes cannot deadlock.
func queueUp(ctx context.Context, tx *db.Tx, ownerID string) (version int64, err error) {
	return own(tx.QueryRow(ctx,
		"UPDATE destination_owners SET version = version + 1 WHERE owner_id = $1 RETURNING version", ownerID))
}

// countOut subtracts one from the owner's number of destinations. It locks the owner's row, as queueUp does.
func countOut(ctx context.Context, tx *db.Tx, ownerID string) (version int64, err error) {
	return own(tx.QueryRow(ctx, `UPDATE destination_owners SET destinations = destinations - 1, version = version + 1
		WHERE owner_id = $1 AND destinations > 0 RETURNING version`, ownerID))
}

func own(row db.Row) (version int64, err error) {
	err = row.Scan(&version)
	if errors.Is(err, db.ErrNoRows) {
		return 0, apierr.NotFoundErr
	}
	return version, err
}

func insert(ctx context.Context, tx *db.Tx, d Destination) error {
	at := db.Micros(d.Created)
	return tx.Insert(ctx, "destinations", []string{"owner_id", "destination_id", "kind", "symbol", "rail", "scheme",
		"country", "network",
		"address", "sealed", "masked", "allocation", "created_at", "updated_at"},
		[][]any{{d.OwnerID, d.ID, d.Kind, string(d.Symbol), d.Rail, d.Scheme, d.Country, d.Network,
			d.Address, d.Sealed, string(d.Data), int64(d.Allocation), at, at}})
}

// setAllocation stores the new part of a destination. The destination must have been read, as old, after queueUp.
func setAllocation(ctx context.Context, tx *db.Tx, old, d Destination) error {
	n, err := tx.Exec(ctx, `UPDATE destinations SET allocation = $3, updated_at = $4, fixed_amount = $6,
			fixed_currency = $7
		WHERE owner_id = $1 AND destination_id = $2 AND allocation = $5`,
		d.OwnerID, d.ID, int64(d.Allocation), db.Micros(tx.Now()), int64(old.Allocation), d.Fixed.Units(),
		string(d.Fixed.Asset()))
	if err == nil && n != 1 {
		return errors.New("destination: an allocation changed concurrently")
	}
	return err
}

// replace stores the new data of a destination, which must have been read after queueUp.
func replace(ctx context.Context, tx *db.Tx, d Destination) error {
	n, err := tx.Exec(ctx, `UPDATE destinations SET kind = $3, symbol = $4, rail = $5, scheme = $6, country = $7,
		network = $8,
			address = $9, sealed = $10, masked = $11, updated_at = $12, correction = '', correction_for = '',
			account_check = ''
		WHERE owner_id = $1 AND destination_id = $2 AND allocation = $13`,
		d.OwnerID, d.ID, d.Kind, string(d.Symbol), d.Rail, d.Scheme, d.Country, d.Network,
		d.Address, d.Sealed, string(d.Data), db.Micros(tx.Now()), int64(d.Allocation))
	if err == nil && n != 1 {
		return errors.New("destination: changed concurrently")
	}
	return err
}

// setCorrection stores a correction with a destination, which must have been read after queueUp.
func setCorrection(ctx context.Context, tx *db.Tx, d Destination, c Correction, companyID string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `UPDATE destinations SET correction = $3, correction_for = $4, updated_at = $5
		WHERE owner_id = $1 AND destination_id = $2 AND SUBSTR(sealed, 13, 16) = $6`, d.OwnerID, d.ID, string(text),
		companyID, db.Micros(tx.Now()), identity.SealID(d.Sealed))
	if err == nil && n != 1 {
		return errors.New("destination: changed concurrently")
	}
	return err
}

// correctionFor returns the company whose payment led to a destination's correction, or the user whose income did.
func correctionFor(ctx context.Context, tx *db.Tx, d Destination) (id string, err error) {
	return id, tx.QueryRow(ctx, "SELECT correction_for FROM destinations WHERE owner_id = $1 AND destination_id = $2",
		d.OwnerID, d.ID).Scan(&id)
}

// setCheck stores the check of a destination, unless the destination's data has changed, and reports whether it did.
func setCheck(ctx context.Context, tx *db.Tx, d Destination, check string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE destinations SET account_check = $4
		WHERE owner_id = $1 AND destination_id = $2 AND SUBSTR(sealed, 13, 16) = $3`, d.OwnerID, d.ID,
		identity.SealID(d.Sealed), check)
	return n == 1, err
}

// changeCheck stores the check of a destination, unless the destination's data or check has changed, and reports
// whether it did.
func changeCheck(ctx context.Context, tx *db.Tx, d Destination, was, check string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE destinations SET account_check = $5
		WHERE owner_id = $1 AND destination_id = $2 AND SUBSTR(sealed, 13, 16) = $3 AND account_check = $4`, d.OwnerID,
		d.ID, identity.SealID(d.Sealed), was, check)
	return n == 1, err
}

// checked returns the owners of destinations for which a bank compared the payee's name with that of the account
// holder.
func checked(ctx context.Context, tx *db.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT owner_id FROM destinations
		WHERE account_check LIKE '%"verification_of_payee"%' ORDER BY owner_id`)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// asked returns the IDs of payees with corrections on which a company must act after its own payments: corrections of
// recipients without a login, and corrections that the payee disputes.
func asked(ctx context.Context, tx *db.Tx, companyID string, limit int) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT owner_id FROM destinations WHERE correction_for = $1
		AND correction_for <> '' AND (owner_id LIKE 'rec%' OR correction LIKE '%"disputed":%')
		ORDER BY owner_id LIMIT $2`, companyID, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// remove deletes a destination unless it receives a part of payments.
func remove(ctx context.Context, tx *db.Tx, ownerID, id string) error {
	n, err := tx.Exec(ctx, `DELETE FROM destinations WHERE owner_id = $1 AND destination_id = $2 AND allocation = 0
		AND fixed_amount = 0`, ownerID, id)
	if err == nil && n != 1 {
		return ErrNotZero
	}
	return err
}

var changeRows = db.BulkInsert("destination_changes", "owner_id", "change_id", "destination_id", "action", "actor_kind",
	"actor_id",
	"company_id", "user_id", "state_before", "state_after", "at")

func insertChange(tx *db.Tx, by identity.Principal, ownerID, id, action string, c change) error {
	before, err := state(c.before)
	if err != nil {
		return err
	}
	after, err := state(c.after)
	if err != nil {
		return err
	}
	changeRows.Add(tx, []any{ownerID, tx.NewID("chg"), id, action, string(by.Kind), by.ID, by.CompanyID, by.UserID,
		string(before), string(after), db.Micros(tx.Now())})
	return nil
}

func selectChanges(ctx context.Context, tx *db.Tx, ownerID string, page db.Page) ([]Change, int64, error) {
	l := &db.List{Columns: `change_id, destination_id, action, actor_kind, actor_id, company_id, user_id, state_before,
		state_after, at`, Table: "destination_changes", ID: "change_id", Time: "at", Page: page}
	l.Where("owner_id = ?", ownerID)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Change, error) {
		c := Change{OwnerID: ownerID}
		var kind, before, after string
		var at int64
		err := r.Scan(&c.ID, &c.DistributionID, &c.Action, &kind, &c.By.CredentialID, &c.By.CompanyID, &c.By.UserID, &before,
			&after, &at)
		c.By.Kind, c.Before, c.After, c.At = identity.Kind(kind), json.RawMessage(before), json.RawMessage(after), db.Time(at)
		return c, err
	})
}

// markMoved stores the current time as the time at which the destinations used for payments last changed. The caller
// must hold the owner's lock.
func markMoved(ctx context.Context, tx *db.Tx, ownerID string) error {
	_, err := tx.Exec(ctx, "UPDATE destination_owners SET destination_changed_at = $2 WHERE owner_id = $1", ownerID,
		db.Micros(tx.Now()))
	return err
}

func selectMoved(ctx context.Context, tx *db.Tx, owners []string, since time.Time) (map[string]time.Time, error) {
	moved := map[string]time.Time{}
	return moved, db.EachIn(ctx, tx, owners, `SELECT owner_id, destination_changed_at FROM destination_owners
		WHERE destination_changed_at > $1 AND owner_id IN %s`, []any{db.Micros(since)}, func(r *db.Rows) error {
		var owner string
		var at int64
		err := r.Scan(&owner, &at)
		moved[owner] = db.Time(at)
		return err
	})
}

func selectFor(ctx context.Context, tx *db.Tx, owners []string) (map[string][]Destination, error) {
	found := make(map[string][]Destination, len(owners))
	owners = slices.Compact(slices.Sorted(slices.Values(owners)))
	return found, db.EachIn(ctx, tx, owners, `SELECT owner_id, destination_id, kind, symbol, rail, scheme, country,
			network, address, sealed, masked, allocation, fixed_amount, fixed_currency, created_at,
			updated_at, correction, account_check
		FROM destinations WHERE owner_id IN %s ORDER BY owner_id, created_at, destination_id`, nil, func(r *db.Rows) error {
		var d Destination
		var symbol, masked, fixedCurrency, correction, check string
		var fixed, created, updated int64
		err := r.Scan(&d.OwnerID, &d.ID, &d.Kind, &symbol, &d.Rail, &d.Scheme, &d.Country, &d.Network,
			&d.Address, &d.Sealed, &masked, &d.Allocation, &fixed, &fixedCurrency, &created,
			&updated, &correction, &check)
		d.Fixed = money.New(money.Asset(fixedCurrency), fixed)
		d.Symbol, d.Data, d.Created = money.Asset(symbol), json.RawMessage(masked), db.Time(created)
		d.Updated = db.Time(updated)
		if err == nil && correction != "" {
			err = json.Unmarshal([]byte(correction), &d.Correction)
		}
		if err == nil && check != "" {
			err = json.Unmarshal([]byte(check), &d.Check)
		}
		found[d.OwnerID] = append(found[d.OwnerID], d)
		return err
	})
}

// Shared describes another payee of a company who has a destination with the same address.
type Shared struct{ DestinationID, RecipientID, Name string }

// SharedAddresses returns a company's payees without an account, other than the owner, who are paid at an address of
// the owner. The company must be allowed to see the owner's destinations.
func SharedAddresses(ctx context.Context, tx *db.Tx, companyID, ownerID string) ([]Shared, error) {
	rows, err := tx.Query(ctx, `SELECT d.destination_id, r.recipient_id, r.name FROM destinations d
		JOIN destinations o ON o.address = d.address AND o.owner_id <> d.owner_id
		JOIN recipients r ON r.company_id = $1 AND r.recipient_id = o.owner_id AND r.user_id = ''
		WHERE d.owner_id = $2 AND d.address <> '' ORDER BY d.destination_id, r.name, r.recipient_id LIMIT 20`, companyID,
		ownerID)
	return db.Collect(rows, err, func(r *db.Rows) (s Shared, err error) {
		return s, r.Scan(&s.DestinationID, &s.RecipientID, &s.Name)
	})
}

// selectAddress returns the address that a payment uses at a destination, or "" if there is none.
func selectAddress(ctx context.Context, tx *db.Tx, of AddressOwner, id, wallet string) (address string, err error) {
	err = tx.QueryRow(ctx, `SELECT address FROM destination_addresses WHERE company_id = $1 AND payment_id = $2
		AND destination_id = $3 AND wallet_id = $4`, of.CompanyID, of.PaymentID, id, wallet).Scan(&address)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return address, err
}

// lastPositions returns the position of a wallet's last assigned address, and of its last address with a confirmed
// payment. A position is -1 if there is no such address.
func lastPositions(ctx context.Context, tx *db.Tx, wallet string) (last, paid int64, err error) {
	if err = tx.QueryRow(ctx, "SELECT COALESCE(MAX(position), -1) FROM destination_addresses WHERE wallet_id = $1",
		wallet).Scan(&last); err != nil {
		return last, paid, err
	}
	err = tx.QueryRow(ctx, `SELECT a.position FROM destination_addresses a
		WHERE a.wallet_id = $1 AND EXISTS (SELECT 1 FROM outputs o WHERE o.company_id = a.company_id
			AND o.payroll_id = a.payroll_id AND o.payment_id = a.payment_id AND o.address = a.address
			AND o.state = 'fulfilled')
		ORDER BY a.position DESC LIMIT 1`, wallet).Scan(&paid)
	if errors.Is(err, db.ErrNoRows) {
		return last, -1, nil
	}
	return last, paid, err
}

// insertAddress assigns an address to a payment. The primary key ensures that of two concurrent transactions only one
// takes a position.
func insertAddress(ctx context.Context, tx *db.Tx, of AddressOwner, id, wallet string, position int64,
	address string) error {
	_, err := tx.Exec(ctx, `INSERT INTO destination_addresses (wallet_id, position, company_id, payroll_id, payment_id,
			destination_id, address, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, wallet, position, of.CompanyID, of.PayrollID, of.PaymentID, id, address,
		db.Micros(tx.Now()))
	return err
}

// deleteUnusedAddresses deletes the addresses assigned to a payment that none of its outputs uses.
func deleteUnusedAddresses(ctx context.Context, tx *db.Tx, of AddressOwner) error {
	_, err := tx.Exec(ctx, `DELETE FROM destination_addresses WHERE company_id = $1 AND payment_id = $2 AND payroll_id = $3
		AND NOT EXISTS (SELECT 1 FROM outputs o WHERE o.company_id = destination_addresses.company_id
			AND o.payroll_id = destination_addresses.payroll_id AND o.payment_id = destination_addresses.payment_id
			AND o.address = destination_addresses.address)`, of.CompanyID, of.PaymentID, of.PayrollID)
	return err
}

// Erase deletes an owner's destinations. Payouts and the history keep masked copies under the owner's ID.
func Erase(ctx context.Context, tx *db.Tx, ownerID string) error {
	if _, err := tx.Exec(ctx, "UPDATE destination_owners SET destinations = 0, version = version + 1 WHERE owner_id = $1",
		ownerID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "DELETE FROM destinations WHERE owner_id = $1", ownerID)
	return err
}

// EraseRequest deletes a company's request to a payee, including the data that the payee entered.
func EraseRequest(ctx context.Context, tx *db.Tx, companyID, recipientID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM destination_requests WHERE company_id = $1 AND recipient_id = $2", companyID,
		recipientID)
	return err
}

// upsertRequest stores a request to a payee. It returns ErrAsked if the last request is less than requestPeriod ago.
func upsertRequest(ctx context.Context, tx *db.Tx, companyID, recipientID, digest string, expires time.Time) error {
	n, err := tx.Exec(ctx, `INSERT INTO destination_requests (company_id, recipient_id, token_digest, sent_at, expires_at)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (company_id, recipient_id) DO UPDATE SET token_digest = excluded.token_digest,
			sent_at = excluded.sent_at, expires_at = excluded.expires_at, draft = '', code_digest = '', code_expires_at = 0,
			codes = 0, attempts = 0,
			used_digest = '', used_id = ''
		WHERE destination_requests.sent_at <= $6`, companyID, recipientID, digest, db.Micros(tx.Now()), db.Micros(expires),
		db.Micros(tx.Now().Add(-requestPeriod)))
	if err == nil && n == 0 {
		return ErrAsked
	}
	return err
}

func selectRequest(ctx context.Context, tx *db.Tx, digest string) (r Request, recipientID string, err error) {
	r.digest = digest
	var expires, codeExpires int64
	err = tx.QueryRow(ctx, `SELECT company_id, recipient_id, expires_at, draft, code_digest, code_expires_at, codes,
		attempts FROM destination_requests WHERE token_digest = $1 AND expires_at > $2`, digest, db.Micros(tx.Now())).Scan(
		&r.CompanyID, &recipientID, &expires, &r.draft, &r.code, &codeExpires, &r.codes, &r.tries)
	if errors.Is(err, db.ErrNoRows) {
		return r, "", apierr.NotFoundErr
	}
	r.Expires, r.codeExpires, r.Entered = db.Time(expires), db.Time(codeExpires), r.draft != ""
	return r, recipientID, err
}

// setDraft stores an entered destination and the digest of its code.
func setDraft(ctx context.Context, tx *db.Tx, r Request, draft, code string, expires time.Time) error {
	n, err := tx.Exec(ctx, `UPDATE destination_requests SET draft = $4, code_digest = $5, code_expires_at = $6,
			codes = codes + 1
		WHERE company_id = $1 AND recipient_id = $2 AND token_digest = $3 AND codes < $7 AND attempts < $8`,
		r.CompanyID, r.Owner.ID, r.digest, draft, code, db.Micros(expires), int64(maxCodes), int64(maxAttempts))
	if err == nil && n != 1 {
		return ErrCodes
	}
	return err
}

// countAttempt counts an attempt to enter the code.
func countAttempt(ctx context.Context, tx *db.Tx, r Request) error {
	n, err := tx.Exec(ctx, `UPDATE destination_requests SET attempts = attempts + 1
		WHERE company_id = $1 AND recipient_id = $2 AND token_digest = $3 AND attempts < $4`,
		r.CompanyID, r.Owner.ID, r.digest, int64(maxAttempts))
	if err == nil && n != 1 {
		return ErrCodes
	}
	return err
}

// useRequest ends a link whose code was entered. The link shows the check of the account for resultLife.
func useRequest(ctx context.Context, tx *db.Tx, r Request) error {
	n, err := tx.Exec(ctx, `UPDATE destination_requests SET token_digest = '', draft = '', code_digest = '',
			used_digest = token_digest, expires_at = $5
		WHERE company_id = $1 AND recipient_id = $2 AND token_digest = $3 AND code_digest = $4`,
		r.CompanyID, r.Owner.ID, r.digest, r.code, db.Micros(tx.Now().Add(resultLife)))
	if err == nil && n != 1 {
		return apierr.NotFoundErr
	}
	return err
}

// setUsed stores the ID of the destination that was entered at a used link.
func setUsed(ctx context.Context, tx *db.Tx, r Request, id string) error {
	return tx.ExecOne(ctx, `UPDATE destination_requests SET used_id = $4
		WHERE company_id = $1 AND recipient_id = $2 AND used_digest = $3`, r.CompanyID, r.Owner.ID, r.digest, id)
}

// selectUsed returns the owner and the ID of the destination that was entered at a used link.
func selectUsed(ctx context.Context, tx *db.Tx, digest string) (ownerID, id string, err error) {
	err = tx.QueryRow(ctx, `SELECT recipient_id, used_id FROM destination_requests
		WHERE used_digest = $1 AND expires_at > $2`, digest, db.Micros(tx.Now())).Scan(&ownerID, &id)
	if errors.Is(err, db.ErrNoRows) {
		err = apierr.NotFoundErr
	}
	return ownerID, id, err
}

func deleteDrafts(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE destination_requests SET draft = '', code_digest = ''
		WHERE draft <> '' AND code_expires_at <= $1`, db.Micros(tx.Now()))
	return err
}

// AskedAt returns the times at which payees of a company were last asked for a destination, by payee.
func AskedAt(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]time.Time, error) {
	asked := map[string]time.Time{}
	return asked, db.EachIn(ctx, tx, ids, `SELECT recipient_id, sent_at FROM destination_requests
		WHERE company_id = $1 AND recipient_id IN %s`, []any{companyID}, func(r *db.Rows) error {
		var id string
		var at int64
		err := r.Scan(&id, &at)
		asked[id] = db.Time(at)
		return err
	})
}

// ReplacedByLink reports whether a destination of an owner was replaced through a mailed link after a given time.
func ReplacedByLink(ctx context.Context, tx *db.Tx, ownerID string, since time.Time) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM destination_changes
		WHERE owner_id = $1 AND action = $2 AND actor_kind = $3 AND at >= $4`,
		ownerID, mail.Replaced, string(identity.KindLink), db.Micros(since)).Scan(&n)
	return n > 0, err
}
