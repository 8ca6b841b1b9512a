package destination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/webhook"
)

// A bank can request a correction: a payment arrived, and the bank reports that a detail of the destination should be
// changed before the next payment. The destination stays unchanged until the correction is accepted by a principal
// who may change the destination. Accepting it has the effects of any other change: an event is emitted, and payments
// wait for the cool-down. Any other change of the destination ends the request.

// ErrCorrection is returned for a correction that is not open.
var ErrCorrection = apierr.New(apierr.Conflict, "invalid_state",
	"The bank does not ask for this correction of the destination, or not any more.")

// Correction is a bank's request to change a destination, with the corrected data.
type Correction struct {
	ID      string          `json:"correction_id"`
	Code    string          `json:"code"`   // the bank's code, such as C01
	Reason  string          `json:"reason"` // short meaning of the code, such as account number
	Members []string        `json:"members"`
	Data    json.RawMessage `json:"data"` // complete corrected data of the destination, with bank data masked
	Asked   time.Time       `json:"asked"`
	Sealed  string          `json:"sealed"`
	// Disputed is the time at which the owner stated that the correction is wrong, or zero. While it is set, nothing is
	// paid to the destination until the destination is replaced or the correction is accepted.
	Disputed time.Time `json:"disputed,omitzero"`
}

// Asked is a bank's request to correct a destination.
type Asked struct {
	// CompanyID is the company that made the payment, or the user whose income was paid.
	CompanyID                      string
	Was                            Destination // the payment's destination as it was when the payment was made
	Code, Reason                   string
	Members                        map[string]string // corrected members of distribution_data
	PayrollID, PaymentID, OutputID string
}

// AskCorrection stores a bank's request with the destination and notifies the company and the payee, once. It ignores
// members that have changed since the payment, and removed destinations. It returns an error if the corrected data is
// not valid for the destination.
func AskCorrection(ctx context.Context, tx *db.Tx, setup Setup, a Asked) error {
	ofUser := identity.IsUser(a.CompanyID)
	if a.Was.OwnerID == a.CompanyID && !ofUser { // a company can only add and remove its own destinations
		c := Correction{ID: tx.NewID("cor"), Code: a.Code, Reason: a.Reason, Members: a.members(), Asked: tx.Now()}
		return a.tell(ctx, tx, payee.Payee{ID: a.CompanyID}, c)
	}
	version, err := queueUp(ctx, tx, a.Was.OwnerID)
	var d Destination
	if err == nil {
		d, err = find(ctx, tx, a.Was.OwnerID, a.Was.ID)
	}
	if errors.Is(err, apierr.NotFoundErr) {
		return nil
	}
	if err != nil || d.Symbol != a.Was.Symbol || d.Scheme != a.Was.Scheme {
		return err
	}
	c, err := setup.correct(d, a)
	if err != nil || c == nil {
		return err
	}
	c.ID, c.Asked = tx.NewID("cor"), tx.Now()
	if err := setCorrection(ctx, tx, d, *c, a.CompanyID); err != nil {
		return err
	}
	db.History(tx, a.CompanyID, d.ID, version, allocated(d), allocated(d),
		"the bank asks for a correction: "+a.Code)
	if ofUser {
		u, err := identity.GetUser(ctx, tx, nil, a.CompanyID)
		if err != nil {
			return err
		}
		a.CompanyID, a.PayrollID, a.PaymentID = u.CompanyID, "", ""
		return a.tell(ctx, tx, payee.Payee{
			ID: u.ID, UserID: u.ID, Name: u.Name(), Country: u.Country, Email: u.Email,
		}, *c)
	}
	payees, err := payee.Payees(ctx, tx, a.CompanyID, []string{d.OwnerID})
	if err != nil {
		return err
	}
	owner := payees[d.OwnerID]
	owner.ID = d.OwnerID
	return a.tell(ctx, tx, owner, *c)
}

func (a Asked) members() (names []string) {
	for name := range a.Members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// correct returns the correction of a destination, combined with an earlier open correction. It returns nil if
// nothing is left to correct.
func (s Setup) correct(d Destination, a Asked) (*Correction, error) {
	var now, then, next map[string]any
	as := d
	if d.Correction != nil {
		as.Sealed = d.Correction.Sealed
	}
	for _, x := range []struct {
		d  Destination
		to *map[string]any
	}{{d, &now}, {a.Was, &then}, {as, &next}} {
		data, err := Reveal(s.Sealer, x.d)
		if err == nil {
			err = json.Unmarshal(data, x.to)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"account_number", "routing_number"} {
		if now[name] != then[name] { // the owner has changed this member since the payment
			return nil, nil
		}
	}
	news := false
	for name, value := range a.Members {
		if now[name] == then[name] && next[name] != value {
			next[name], news = value, true
		}
	}
	c := &Correction{Code: a.Code, Reason: a.Reason}
	for name, value := range next {
		// Accepting this correction also accepts the members of the earlier correction.
		if text, is := value.(string); is && now[name] != text {
			c.Members = append(c.Members, name)
		}
	}
	slices.Sort(c.Members)
	if !news || len(c.Members) == 0 {
		return nil, nil
	}
	rows, err := lookup(string(d.Symbol), d.Country)
	if err != nil {
		return nil, err
	}
	if len(rows) > 1 {
		next["rail"] = d.Scheme
	}
	typed, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	checked, clean, err := s.check(CreateParams{Symbol: string(d.Symbol), Data: typed}, d.Country)
	if err != nil {
		return nil, fmt.Errorf("distribution %s: %s wants what it cannot have: %w", d.ID, a.Code, err)
	}
	c.Data = checked.Data
	c.Sealed, err = s.Sealer.Seal(sealedAt(d), clean)
	return c, err
}

// tell emits the event about a correction, and mails the payee and everyone who may accept it.
func (a Asked) tell(ctx context.Context, tx *db.Tx, owner payee.Payee, c Correction) error {
	e := webhook.CorrectionData{
		RecipientID: owner.ID, UserID: owner.UserID, DistributionID: a.Was.ID, CorrectionID: c.ID,
		Symbol: string(a.Was.Symbol), Code: c.Code, Reason: c.Reason,
		Members: c.Members, PayrollID: a.PayrollID, SubpayrollID: a.PaymentID, PayoutID: a.OutputID,
		Asked: c.Asked.Truncate(time.Millisecond),
	}
	if owner.ID == a.CompanyID {
		e.CompanyID, e.RecipientID, e.PayrollID, e.SubpayrollID = a.CompanyID, "", "", ""
	}
	if a.CompanyID != "" {
		if err := webhook.EmitNext(ctx, tx, webhook.DistributionCorrectionAsked.Event(a.CompanyID, owner.ID, 0,
			e)); err != nil {
			return err
		}
	}
	e.PayrollID, e.PayoutID = "", "" // only the company may see these IDs
	if err := webhook.EmitNext(ctx, tx, webhook.DistributionCorrectionAsked.Event("", owner.ID, 0,
		e).And(owner.UserID)...); err != nil {
		return err
	}
	letter := mail.Message{CompanyID: a.CompanyID, Template: mail.CorrectionAsked}
	about := mail.CorrectionAskedData{Destination: a.Was.label(), Members: c.Members, Own: owner.ID == a.CompanyID}
	if mail.Valid(owner.Email) {
		letter.To, letter.Key, letter.Language = owner.Email, c.ID+"/payee", mail.LanguageOf(owner.Country)
		about.Name = owner.Name
		letter.Data = about
		if err := mail.Enqueue(ctx, tx, letter); err != nil {
			return err
		}
	}
	if owner.UserID != "" {
		return nil // no company can accept it, only the payee
	}
	company, err := identity.CompanyByID(ctx, tx, a.CompanyID)
	if err != nil {
		return err
	}
	about.Payee = owner.Name
	people, err := auth.Administrators(ctx, tx, company)
	if err != nil {
		return err
	}
	for address, name := range people {
		letter.To, letter.Key, letter.Language = address, c.ID+"/"+identity.EmailKey(address),
			mail.LanguageOf(company.Country)
		about.Name = name
		letter.Data = about
		if err := mail.Enqueue(ctx, tx, letter); err != nil {
			return err
		}
	}
	return nil
}

// Correct accepts a correction that a bank requested. The principal must be allowed to act for the destination's
// owner. Correct returns apierr.NotFoundErr for an unknown destination, and ErrCorrection for a correction that is
// not open.
func Correct(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID, id,
	correctionID string) (Destination, error) {
	owner, version, old, err := lockOwn(ctx, tx, by, ownerID, id)
	if err != nil {
		return Destination{}, err
	}
	c := old.Correction
	if c == nil || c.ID != correctionID {
		return old, ErrCorrection
	}
	d := old
	d.Data, d.Sealed, d.Correction, d.Check = c.Data, c.Sealed, nil, nil
	if err := replace(ctx, tx, d); err != nil {
		return Destination{}, err
	}
	db.History(tx, by.CompanyID, d.ID, version, allocated(d), allocated(d),
		"corrected as the bank asked: "+c.Code)
	return d, tell(ctx, tx, by, owner, version, mail.Replaced, change{&old, &d})
}

// Dispute records that the owner states that a correction is wrong. The destination stays unchanged, and payments to
// it wait until the owner replaces it or accepts the correction. The company that made the payment is notified by the
// event distribution.correction_disputed. Dispute returns the same errors as [Correct].
func Dispute(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID, id,
	correctionID string) (Destination, error) {
	owner, version, d, err := lockOwn(ctx, tx, by, ownerID, id)
	if err != nil {
		return Destination{}, err
	}
	c := d.Correction
	if c == nil || c.ID != correctionID || !c.Disputed.IsZero() {
		return d, ErrCorrection
	}
	c.Disputed = tx.Now()
	company, err := correctionFor(ctx, tx, d)
	if err != nil {
		return d, err
	}
	if err := setCorrection(ctx, tx, d, *c, company); err != nil {
		return d, err
	}
	db.History(tx, by.CompanyID, d.ID, version, allocated(d), allocated(d),
		"the owner says that the bank's correction is wrong: "+c.Code)
	if identity.IsUser(company) {
		company = ""
	}
	return d, webhook.EmitNext(ctx, tx, webhook.DistributionCorrectionDisputed.Event(company, owner.ID, 0,
		webhook.CorrectionData{RecipientID: owner.ID, UserID: owner.UserID, DistributionID: d.ID, CorrectionID: c.ID,
			Symbol: string(d.Symbol), Code: c.Code, Reason: c.Reason, Members: c.Members,
			Asked: c.Asked.Truncate(time.Millisecond)}).And(owner.UserID)...)
}

// Disputed reports whether any of the destinations has a correction that its owner disputes.
func Disputed(all []Destination) bool {
	return slices.ContainsFunc(all, func(d Destination) bool {
		return d.Correction != nil && !d.Correction.Disputed.IsZero()
	})
}

// Corrections returns destinations with corrections on which a company must act, for at most limit payees:
// corrections of recipients without a login, and corrections that the payee disputes.
func Corrections(ctx context.Context, tx *db.Tx, companyID string, limit int) ([]Destination, error) {
	owners, err := asked(ctx, tx, companyID, limit)
	if err != nil || len(owners) == 0 {
		return nil, err
	}
	all, err := selectFor(ctx, tx, owners)
	var some []Destination
	for _, owner := range owners {
		for _, d := range all[owner] {
			if d.Correction != nil && (!identity.IsUser(owner) || !d.Correction.Disputed.IsZero()) {
				some = append(some, d)
			}
		}
	}
	return some, err
}
