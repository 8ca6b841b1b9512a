package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
)

// Payment destinations. Every operation exists in two forms: for a recipient of the company, whose ID is in the path,
// and for a user, whose ID is in the body or the query.
type (
	recipientDestinationCreateInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientDestinationCreateBody
	}

	recipientDestinationCreateBody struct {
		Symbol string         `json:"symbol" minLength:"1" maxLength:"10"`
		Data   jsontext.Value `json:"distribution_data"`
		Wallet *walletHosting `json:"wallet,omitempty"`
	}

	userDestinationCreateInput struct{ Body userDestinationCreateBody }

	userDestinationCreateBody struct {
		UserID string         `json:"user_id" minLength:"1" maxLength:"64"`
		Symbol string         `json:"symbol" minLength:"1" maxLength:"10"`
		Type   string         `json:"distribution_type" enum:"crypto,fiat"`
		Data   jsontext.Value `json:"distribution_data"`
		Wallet *walletHosting `json:"wallet,omitempty"`
	}

	recipientDestinationCreated struct {
		DistributionID string `json:"distribution_id"`
		RecipientID    string `json:"recipient_id"`
		Symbol         string `json:"symbol"`
		Allocation     int    `json:"allocation"`
		Status         string `json:"status" enum:"active"`
		Payable        bool   `json:"payable"`
	}

	userDestinationCreated struct {
		DistributionID string `json:"distribution_id"`
		UserID         string `json:"user_id"`
		Symbol         string `json:"symbol"`
		Allocation     int    `json:"allocation"`
		Payable        bool   `json:"payable"`
	}

	recipientDestinationUpdateInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientDestinationUpdateBody
	}

	recipientDestinationUpdateBody struct {
		DistributionID string         `json:"distribution_id" minLength:"1" maxLength:"64"`
		Symbol         string         `json:"symbol,omitempty" maxLength:"10" doc:"New currency. Default: unchanged."`
		Data           jsontext.Value `json:"distribution_data" doc:"Complete details, as for a new destination."`
		Wallet         *walletHosting `json:"wallet,omitempty"`
	}

	userDestinationUpdateInput struct{ Body userDestinationUpdateBody }

	userDestinationUpdateBody struct {
		UserID         string         `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string         `json:"distribution_id" minLength:"1" maxLength:"64"`
		Symbol         string         `json:"symbol,omitempty" maxLength:"10" doc:"New currency. Default: unchanged."`
		Type           string         `json:"distribution_type,omitempty" enum:"crypto,fiat"`
		Data           jsontext.Value `json:"distribution_data" doc:"Complete details, as for a new destination."`
		Wallet         *walletHosting `json:"wallet,omitempty"`
	}

	recipientDestinationCorrectInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientDestinationCorrectBody
	}

	recipientDestinationCorrectBody struct {
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		CorrectionID   string `json:"correction_id" minLength:"1" maxLength:"64"`
	}

	userDestinationConfirmInput struct {
		Body struct {
			UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
			DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		}
	}

	userDestinationCorrectInput struct{ Body userDestinationCorrectBody }

	userDestinationCorrectBody struct {
		UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		CorrectionID   string `json:"correction_id" minLength:"1" maxLength:"64"`
	}

	recipientDestinationDeleteInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientDestinationDeleteBody
	}

	recipientDestinationDeleteBody struct {
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
	}

	userDestinationDeleteInput struct{ Body userDestinationDeleteBody }

	userDestinationDeleteBody struct {
		UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
	}

	destinationDeleted struct {
		DistributionID string `json:"distribution_id"`
		Deleted        bool   `json:"deleted"`
	}

	recipientDestinationGet struct {
		CompanyID      string `path:"company_id"`
		RecipientID    string `path:"recipient_id"`
		DistributionID string `query:"distribution_id" required:"true" maxLength:"64"`
	}

	userDestinationGet struct {
		UserID         string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
		DistributionID string `query:"distribution_id" required:"true" maxLength:"64"`
	}

	// DestinationDetails is exported because the contract omits the fields of unexported embedded types.
	DestinationDetails struct {
		DistributionID string         `json:"distribution_id"`
		Type           string         `json:"distribution_type" enum:"crypto,fiat"`
		Symbol         string         `json:"symbol"`
		Network        string         `json:"network" doc:"Network of the address; empty for a bank account."`
		Address        string         `json:"address" doc:"Address on the network; empty for a bank account."`
		Fresh          bool           `json:"fresh_addresses" doc:"Each payment goes to a new address."`
		Tag            string         `json:"tag" doc:"Always empty; no coin that is paid has tags."`
		TransferMemo   string         `json:"transfer_memo" doc:"Always empty; no coin that is paid has memos."`
		Data           jsontext.Value `json:"distribution_data" doc:"Details of the destination, with bank data masked."`
		Allocation     int            `json:"allocation"`
		FixedAmount    Decimal        `json:"fixed_amount"`
		FixedCurrency  string         `json:"fixed_currency"`
		Payable        bool           `json:"payable"`
		Created        Time           `json:"created"`
		Correction     *correction    `json:"correction,omitempty"`
		Check          *accountCheck  `json:"account_check,omitempty"`
	}

	recipientDestination struct {
		OwnerID string `json:"recipient_id"`
		DestinationDetails
	}

	userDestination struct {
		OwnerID string `json:"user_id"`
		DestinationDetails
	}

	accountCheck struct {
		Method string `json:"method" enum:"verification_of_payee,prenote"`
		Result string `json:"result" enum:"pending,match,close_match,no_match,not_possible,accepted,returned"`
		Holder string `json:"holder_name" doc:"Name of the account's holder, for a close match."`
		Code   string `json:"code" doc:"The bank's code for a returned prenote, or empty."`
		Until  *Time  `json:"waits_until,omitempty" doc:"Nothing is paid before, because of a prenote."`
		At     Time   `json:"checked" doc:"Time of the result, or of the request."`
		// Confirmed is also set for an account for which no bank has answered.
		Confirmed *Time `json:"confirmed,omitempty" doc:"When the owner confirmed the account despite the result."`
	}

	correction struct {
		CorrectionID string         `json:"correction_id"`
		Code         string         `json:"code" doc:"Nacha change code: C01 to C07."`
		Reason       string         `json:"reason" doc:"Short meaning of the code."`
		Members      []string       `json:"members" doc:"Fields of distribution_data to change."`
		Data         jsontext.Value `json:"distribution_data"`
		Asked        Time           `json:"asked" doc:"When the bank's response was processed."`
		Disputed     *Time          `json:"disputed,omitempty" doc:"When the owner said that the correction is wrong."`
	}

	recipientDestinationList struct {
		Distributions []recipientDestination `json:"distributions"`
	}

	userDestinationList struct {
		Distributions []userDestination `json:"distributions"`
	}

	recipientAllocationsInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientAllocationsBody
	}

	recipientAllocationsBody struct {
		Allocations []allocation `json:"allocations" minItems:"1" maxItems:"100"`
	}

	userAllocationsInput struct{ Body userAllocationsBody }

	userAllocationsBody struct {
		UserID      string       `json:"user_id" minLength:"1" maxLength:"64"`
		Allocations []allocation `json:"allocations" minItems:"1" maxItems:"100"`
	}

	allocation struct {
		DistributionID string  `json:"distribution_id" minLength:"1" maxLength:"64"`
		Allocation     Decimal `json:"allocation,omitempty" doc:"An integer from 0 to 100."`
		FixedAmount    Decimal `json:"fixed_amount,omitempty" doc:"Instead of allocation: amount that is paid first."`
		FixedCurrency  string  `json:"fixed_currency,omitempty" maxLength:"10" doc:"Currency of fixed_amount."`
		Remainder      bool    `json:"remainder,omitempty" doc:"Instead of allocation: the percentage that the others leave."`
	}

	recipientAllocationsUpdated struct {
		Updated       bool                   `json:"updated" doc:"true if it was updated."`
		Distributions []recipientDestination `json:"distributions"`
	}

	userAllocationsUpdated struct {
		Updated       bool              `json:"updated" doc:"true if it was updated."`
		Distributions []userDestination `json:"distributions"`
	}

	recipientDestinationHistoryInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		cursorPaging
	}

	userDestinationHistoryInput struct {
		UserID string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
		cursorPaging
	}

	destinationHistory struct {
		Data []destinationChange `json:"data" doc:"The changes, newest first."`
		Meta meta                `json:"meta"`
	}

	destinationChange struct {
		ChangeID       string           `json:"change_id"`
		DistributionID string           `json:"distribution_id"`
		Action         string           `json:"action" enum:"added,replaced,removed,reallocated"`
		By             destinationActor `json:"by" doc:"Credential that made the change."`
		Before         jsontext.Value   `json:"before,omitempty"`
		After          jsontext.Value   `json:"after,omitempty"`
		At             Time             `json:"at"`
	}

	destinationActor struct {
		Kind         string `json:"kind" enum:"api_key,oauth_token,session,link" doc:"Type of the credential."`
		CredentialID string `json:"credential_id"`
		CompanyID    string `json:"company_id"`
		UserID       string `json:"user_id"`
	}

	recipientDestinationFieldsInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		destinationCurrency
	}

	userDestinationFieldsInput struct {
		UserID string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
		destinationCurrency
	}

	destinationCurrency struct {
		Currency string `query:"currency" maxLength:"10" doc:"Required unless symbol is set."`
		Symbol   string `query:"symbol" maxLength:"10" doc:"Alias of currency."`
	}

	requiredFields struct {
		Currency string          `json:"currency"`
		Country  string          `json:"country"`
		Payable  bool            `json:"payable"`
		Fields   []requiredField `json:"required_fields"`
	}

	requiredField struct {
		Key       string             `json:"key"`
		Label     string             `json:"label"`
		Type      string             `json:"type" enum:"text,select,date,email,phone,group" doc:"Type of the form field."`
		Required  bool               `json:"required"`
		MinLength int                `json:"min_length"`
		MaxLength int                `json:"max_length" doc:"Maximum length; 0 means no limit other than the pattern."`
		Pattern   string             `json:"pattern"`
		Example   string             `json:"example"`
		Options   []fieldOption      `json:"options" doc:"The values to choose from, for a select."`
		DependsOn *fieldDependency   `json:"depends_on,omitempty"`
		OneOf     string             `json:"one_of" doc:"Exactly one of the fields with the same value is required."`
		Checksum  string             `json:"checksum" doc:"Name of the check-digit algorithm; may be empty."`
		Rail      string             `json:"rail"`
		Fields    []requiredSubfield `json:"fields" doc:"Fields of a group."`
	}

	requiredSubfield struct {
		Key       string        `json:"key"`
		Label     string        `json:"label"`
		Type      string        `json:"type" enum:"text,select,date,email,phone" doc:"Type of the form field."`
		Required  bool          `json:"required"`
		MinLength int           `json:"min_length"`
		MaxLength int           `json:"max_length"`
		Pattern   string        `json:"pattern"`
		Example   string        `json:"example"`
		Options   []fieldOption `json:"options"`
	}

	fieldOption struct {
		Value string `json:"value"`
		Label string `json:"label"`
	}

	fieldDependency struct {
		Field string `json:"field"`
		Value string `json:"value"`
	}
)

// setup returns the networks and other settings of the installation that destinations depend on.
func (c *request) setup() destination.Setup {
	setup := c.Payroll.Destinations()
	setup.Sealer = c.Sealer
	return setup
}

// forUser calls f with the ID of the user for whom the request acts.
func forUser[T any](
	ctx context.Context, tx *db.Tx, c *request, userID string, f func(id string) (T, error),
) (T, error) {
	u, err := identity.ActingUser(ctx, tx, c.by, userID)
	if err != nil {
		return *new(T), err
	}
	return f(u.ID)
}

// shown returns a destination in the form of a response to its owner.
func shown[T recipientDestination | userDestination](c *request, d destination.Destination) T {
	data := jsontext.Value(d.Data)
	if len(data) == 0 {
		data = jsontext.Value("{}")
	}
	details := DestinationDetails{
		DistributionID: d.ID, Type: d.Kind, Symbol: string(d.Symbol), Network: d.Network, Address: d.Address,
		Fresh: d.Fresh(), Data: data, Allocation: d.Allocation, FixedAmount: amount(d.Fixed),
		FixedCurrency: string(d.Fixed.Asset()), Payable: c.setup().Payable(d.Symbol, d.Network),
		Created: Time(d.Created),
	}
	if a := d.Correction; a != nil {
		details.Correction = &correction{a.ID, a.Code, a.Reason, a.Members, jsontext.Value(a.Data), Time(a.Asked), nil}
		if !a.Disputed.IsZero() {
			details.Correction.Disputed = (*Time)(&a.Disputed)
		}
	}
	if a := d.Check; a != nil {
		holder, err := d.Holder(c.Sealer)
		if err != nil {
			holder = ""
		}
		details.Check = &accountCheck{string(a.Method), string(a.Result), holder, a.Code, nil, Time(a.Checked), nil}
		if !a.Confirmed.IsZero() {
			details.Check.Confirmed = (*Time)(&a.Confirmed)
		}
		if !a.Until.IsZero() {
			details.Check.Until = (*Time)(&a.Until)
		}
	}
	return T(recipientDestination{d.OwnerID, details})
}

// shownOrErr is like shown, for the results of a function that can fail.
func shownOrErr[T recipientDestination | userDestination](
	c *request, d destination.Destination, err error,
) (*T, error) {
	if err != nil {
		return nil, err
	}
	return new(shown[T](c, d)), nil
}

// allShown is like shown, for a list.
func allShown[T recipientDestination | userDestination](c *request, all []destination.Destination) []T {
	list := make([]T, len(all))
	for i, d := range all {
		list[i] = shown[T](c, d)
	}
	return list
}

func createRecipientDestination(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationCreateInput,
) (*recipientDestinationCreated, error) {
	d, err := destination.Create(ctx, tx, c.setup(), c.by, destination.CreateParams{
		OwnerID: in.RecipientID, Symbol: in.Body.Symbol, Data: json.RawMessage(in.Body.Data),
	})
	if err == nil {
		err = declareNew(ctx, tx, c, d, in.Body.Wallet)
	}
	if err != nil {
		return nil, err
	}
	payable := c.setup().Payable(d.Symbol, d.Network)
	return &recipientDestinationCreated{d.ID, d.OwnerID, string(d.Symbol), d.Allocation, "active", payable}, nil
}

func createUserDestination(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationCreateInput,
) (*userDestinationCreated, error) {
	d, err := forUser(ctx, tx, c, in.Body.UserID, func(id string) (destination.Destination, error) {
		return destination.Create(ctx, tx, c.setup(), c.by, destination.CreateParams{
			OwnerID: id, Symbol: in.Body.Symbol, Kind: in.Body.Type, Data: json.RawMessage(in.Body.Data),
		})
	})
	if err == nil {
		err = declareNew(ctx, tx, c, d, in.Body.Wallet)
	}
	if err != nil {
		return nil, err
	}
	payable := c.setup().Payable(d.Symbol, d.Network)
	return &userDestinationCreated{d.ID, d.OwnerID, string(d.Symbol), d.Allocation, payable}, nil
}

func updateRecipientDestination(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationUpdateInput,
) (*recipientDestination, error) {
	b := &in.Body
	d, err := destination.Update(ctx, tx, c.setup(), c.by, destination.UpdateParams{
		OwnerID: in.RecipientID, ID: b.DistributionID, Symbol: b.Symbol, Data: json.RawMessage(b.Data),
	})
	if err == nil {
		err = declareNew(ctx, tx, c, d, b.Wallet)
	}
	return shownOrErr[recipientDestination](c, d, err)
}

func updateUserDestination(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationUpdateInput,
) (*userDestination, error) {
	b := &in.Body
	d, err := forUser(ctx, tx, c, b.UserID, func(id string) (destination.Destination, error) {
		return destination.Update(ctx, tx, c.setup(), c.by, destination.UpdateParams{
			OwnerID: id, ID: b.DistributionID, Symbol: b.Symbol, Kind: b.Type, Data: json.RawMessage(b.Data),
		})
	})
	if err == nil {
		err = declareNew(ctx, tx, c, d, b.Wallet)
	}
	return shownOrErr[userDestination](c, d, err)
}

func correctRecipientDestination(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationCorrectInput,
) (*recipientDestination, error) {
	d, err := destination.Correct(ctx, tx, c.by, in.RecipientID, in.Body.DistributionID, in.Body.CorrectionID)
	return shownOrErr[recipientDestination](c, d, err)
}

func correctUserDestination(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationCorrectInput,
) (*userDestination, error) {
	d, err := forUser(ctx, tx, c, in.Body.UserID, func(id string) (destination.Destination, error) {
		return destination.Correct(ctx, tx, c.by, id, in.Body.DistributionID, in.Body.CorrectionID)
	})
	return shownOrErr[userDestination](c, d, err)
}

func disputeRecipientCorrection(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationCorrectInput,
) (*recipientDestination, error) {
	d, err := destination.Dispute(ctx, tx, c.by, in.RecipientID, in.Body.DistributionID, in.Body.CorrectionID)
	return shownOrErr[recipientDestination](c, d, err)
}

func disputeUserCorrection(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationCorrectInput,
) (*userDestination, error) {
	d, err := forUser(ctx, tx, c, in.Body.UserID, func(id string) (destination.Destination, error) {
		return destination.Dispute(ctx, tx, c.by, id, in.Body.DistributionID, in.Body.CorrectionID)
	})
	return shownOrErr[userDestination](c, d, err)
}

func confirmUserDestination(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationConfirmInput,
) (*userDestination, error) {
	d, err := forUser(ctx, tx, c, in.Body.UserID, func(id string) (destination.Destination, error) {
		return destination.Confirm(ctx, tx, c.by, c.Payroll.Checks, id, in.Body.DistributionID)
	})
	return shownOrErr[userDestination](c, d, err)
}

func deleteRecipientDestination(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationDeleteInput,
) (*destinationDeleted, error) {
	err := destination.Delete(ctx, tx, c.by, in.RecipientID, in.Body.DistributionID)
	return &destinationDeleted{in.Body.DistributionID, err == nil}, err
}

func deleteUserDestination(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationDeleteInput,
) (*destinationDeleted, error) {
	return forUser(ctx, tx, c, in.Body.UserID, func(id string) (*destinationDeleted, error) {
		err := destination.Delete(ctx, tx, c.by, id, in.Body.DistributionID)
		return &destinationDeleted{in.Body.DistributionID, err == nil}, err
	})
}

func getRecipientDestination(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationGet,
) (*recipientDestination, error) {
	d, err := destination.Get(ctx, tx, c.by, in.RecipientID, in.DistributionID)
	return shownOrErr[recipientDestination](c, d, err)
}

func getUserDestination(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationGet,
) (*userDestination, error) {
	d, err := forUser(ctx, tx, c, in.UserID, func(id string) (destination.Destination, error) {
		return destination.Get(ctx, tx, c.by, id, in.DistributionID)
	})
	return shownOrErr[userDestination](c, d, err)
}

func listRecipientDestinations(
	ctx context.Context, tx *db.Tx, c *request, in *recipientGet,
) (*recipientDestinationList, error) {
	all, err := destination.List(ctx, tx, c.by, in.RecipientID)
	return &recipientDestinationList{allShown[recipientDestination](c, all)}, err
}

func listUserDestinations(ctx context.Context, tx *db.Tx, c *request, in *userGet) (*userDestinationList, error) {
	all, err := forUser(ctx, tx, c, in.UserID, func(id string) ([]destination.Destination, error) {
		return destination.List(ctx, tx, c.by, id)
	})
	return &userDestinationList{allShown[userDestination](c, all)}, err
}

func setRecipientAllocations(
	ctx context.Context, tx *db.Tx, c *request, in *recipientAllocationsInput,
) (*recipientAllocationsUpdated, error) {
	all, err := destination.SetAllocations(ctx, tx, c.by, in.RecipientID, shares(in.Body.Allocations))
	return &recipientAllocationsUpdated{true, allShown[recipientDestination](c, all)}, err
}

func setUserAllocations(
	ctx context.Context, tx *db.Tx, c *request, in *userAllocationsInput,
) (*userAllocationsUpdated, error) {
	all, err := forUser(ctx, tx, c, in.Body.UserID, func(id string) ([]destination.Destination, error) {
		return destination.SetAllocations(ctx, tx, c.by, id, shares(in.Body.Allocations))
	})
	return &userAllocationsUpdated{true, allShown[userDestination](c, all)}, err
}

func shares(allocations []allocation) []destination.Share {
	all := make([]destination.Share, len(allocations))
	for i, a := range allocations {
		all[i] = destination.Share{DistributionID: a.DistributionID, Allocation: json.Number(a.Allocation),
			FixedAmount: string(a.FixedAmount), FixedCurrency: a.FixedCurrency, Remainder: a.Remainder}
	}
	return all
}

func listRecipientDestinationChanges(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationHistoryInput,
) (*destinationHistory, error) {
	return destinationChanges(ctx, tx, c, in.RecipientID, in.cursorPaging)
}

func listUserDestinationChanges(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationHistoryInput,
) (*destinationHistory, error) {
	return forUser(ctx, tx, c, in.UserID, func(id string) (*destinationHistory, error) {
		return destinationChanges(ctx, tx, c, id, in.cursorPaging)
	})
}

func destinationChanges(
	ctx context.Context, tx *db.Tx, c *request, ownerID string, p cursorPaging,
) (*destinationHistory, error) {
	some, total, err := destination.History(ctx, tx, c.by, ownerID, p.page())
	if err != nil {
		return nil, err
	}
	out := &destinationHistory{Data: make([]destinationChange, len(some)), Meta: metaOf(p, total, some,
		func(x destination.Change) string { return x.ID })}
	for i, h := range some {
		out.Data[i] = destinationChange{
			ChangeID: h.ID, DistributionID: h.DistributionID, Action: h.Action, At: Time(h.At),
			By:     destinationActor{string(h.By.Kind), h.By.CredentialID, h.By.CompanyID, h.By.UserID},
			Before: jsontext.Value(h.Before), After: jsontext.Value(h.After),
		}
	}
	return out, nil
}

func getRecipientDestinationFields(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationFieldsInput,
) (*requiredFields, error) {
	return in.fields(ctx, tx, c, in.RecipientID)
}

func getUserDestinationFields(
	ctx context.Context, tx *db.Tx, c *request, in *userDestinationFieldsInput,
) (*requiredFields, error) {
	return forUser(ctx, tx, c, in.UserID, func(id string) (*requiredFields, error) { return in.fields(ctx, tx, c, id) })
}

// fields returns the fields that a payee's destination in this currency requires.
func (w destinationCurrency) fields(
	ctx context.Context, tx *db.Tx, c *request, ownerID string,
) (*requiredFields, error) {
	currency, name := cmp.Or(w.Currency, w.Symbol), "currency"
	if w.Currency == "" && w.Symbol != "" {
		name = "symbol"
	}
	if currency == "" {
		return nil, apierr.New(apierr.Invalid, "missing_field", "Set the currency, for example EUR or BTC.").
			At("query", name)
	}
	r, err := destination.Required(ctx, tx, c.setup(), c.by, ownerID, currency)
	if errors.Is(err, destination.ErrCurrency) {
		return nil, destination.ErrCurrency.At("query", name)
	}
	if err != nil {
		return nil, err
	}
	payable := c.setup().Payable(money.Asset(r.Currency), "")
	out := &requiredFields{r.Currency, r.Country, payable, make([]requiredField, len(r.Fields))}
	for i, f := range r.Fields {
		out.Fields[i] = requiredField{
			Key: f.Key, Label: f.Label, Type: f.Type, Required: f.Required, MinLength: f.MinLength, MaxLength: f.MaxLength,
			Pattern: f.Pattern, Example: f.Example, Options: options(f.Options), OneOf: f.OneOf,
			Checksum: f.Checksum, Rail: f.Rail,
			Fields: make([]requiredSubfield, len(f.Fields)),
		}
		if f.DependsOn != nil {
			out.Fields[i].DependsOn = &fieldDependency{f.DependsOn.Field, f.DependsOn.Value}
		}
		for j, s := range f.Fields {
			out.Fields[i].Fields[j] = requiredSubfield{
				s.Key, s.Label, s.Type, s.Required, s.MinLength, s.MaxLength, s.Pattern, s.Example, options(s.Options),
			}
		}
	}
	return out, nil
}

func options(all []destination.Option) []fieldOption {
	list := make([]fieldOption, len(all))
	for i, o := range all {
		list[i] = fieldOption{o.Value, o.Label}
	}
	return list
}
