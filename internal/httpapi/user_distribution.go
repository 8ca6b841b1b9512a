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

type (
	userDistributionCreateInput struct {
		Body userDistributionCreateBody
	}

	userDistributionCreateBody struct {
		UserID string         `json:"user_id" minLength:"1" maxLength:"64"`
		Symbol string         `json:"symbol" minLength:"1" maxLength:"10" doc:"One of GET /api/currencies."`
		Type   string         `json:"distribution_type" enum:"crypto,fiat"`
		Data   jsontext.Value `json:"distribution_data"`
	}

	userDistributionCreated struct {
		DistributionID string `json:"distribution_id"`
		UserID         string `json:"user_id"`
		Symbol         string `json:"symbol"`
		Allocation     int    `json:"allocation"`
		Payable        bool   `json:"payable"`
	}

	userDistributionUpdateInput struct {
		Body userDistributionUpdateBody
	}

	userDistributionUpdateBody struct {
		UserID         string         `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string         `json:"distribution_id" minLength:"1" maxLength:"64"`
		Symbol         string         `json:"symbol,omitempty" maxLength:"10" doc:"Default: unchanged."`
		Type           string         `json:"distribution_type,omitempty" enum:"crypto,fiat"`
		Data           jsontext.Value `json:"distribution_data" doc:"Complete data, as for a new destination."`
	}

	userDistributionDeleteInput struct {
		Body userDistributionDeleteBody
	}

	userDistributionDeleteBody struct {
		UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
	}

	userAllocationsInput struct {
		Body userAllocationsBody
	}

	userAllocationsBody struct {
		UserID      string       `json:"user_id" minLength:"1" maxLength:"64"`
		Allocations []allocation `json:"allocations" minItems:"1" maxItems:"100"`
	}

	userAllocationsUpdated struct {
		Updated       bool                   `json:"updated"`
		Distributions []userDistributionItem `json:"distributions"`
	}

	userDistributionList struct {
		Distributions []userDistributionItem `json:"distributions"`
	}

	userDistributionGet struct {
		UserID         string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
		DistributionID string `query:"distribution_id" required:"true" maxLength:"64"`
	}

	userDistributionItem struct {
		DistributionID string         `json:"distribution_id"`
		UserID         string         `json:"user_id"`
		Address        string         `json:"address" doc:"Address on a chain; empty for a bank account."`
		Symbol         string         `json:"symbol"`
		Tag            string         `json:"tag"`
		TransferMemo   string         `json:"transfer_memo"`
		Type           string         `json:"distribution_type" enum:"crypto,fiat"`
		Network        string         `json:"network"`
		Data           jsontext.Value `json:"distribution_data" doc:"Bank data is masked."`
		Allocation     int            `json:"allocation"`
		Payable        bool           `json:"payable"`
		Created        Time           `json:"created"`
		Correction     *correction    `json:"correction,omitempty"`
	}

	userDistributionCorrectInput struct {
		Body userDistributionCorrectBody
	}

	userDistributionCorrectBody struct {
		UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		CorrectionID   string `json:"correction_id" minLength:"1" maxLength:"64"`
	}

	userDistributionFields struct {
		UserID string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
		wantedCurrency
	}

	wantedCurrency struct {
		Currency string `query:"currency" maxLength:"10" doc:"Required unless symbol is set."`
		Symbol   string `query:"symbol" maxLength:"10" doc:"Alias of currency."`
	}

	userDistributionHistoryInput struct {
		UserID string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
		paging
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
		Type      string             `json:"type" enum:"text,select,date,email,phone,group"`
		Required  bool               `json:"required"`
		MinLength int                `json:"min_length"`
		MaxLength int                `json:"max_length" doc:"0 means no limit other than the pattern."`
		Pattern   string             `json:"pattern" doc:"Regular expression; may be empty."`
		Example   string             `json:"example"`
		Options   []fieldOption      `json:"options" doc:"For a select."`
		DependsOn *fieldDependency   `json:"depends_on,omitempty"`
		Checksum  string             `json:"checksum" doc:"Name of the checksum; may be empty."`
		Rail      string             `json:"rail"`
		Fields    []requiredSubfield `json:"fields" doc:"Fields of a group."`
	}

	requiredSubfield struct {
		Key       string        `json:"key"`
		Label     string        `json:"label"`
		Type      string        `json:"type" enum:"text,select,date,email,phone"`
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

// owner is the user that a request means, by id.
func (c *request) owner(ctx context.Context, tx *db.Tx, userID string) (string, error) {
	u, err := identity.ActingUser(ctx, tx, c.by, userID)
	return u.ID, err
}

func createUserDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionCreateInput,
) (*userDistributionCreated, error) {
	owner, err := c.owner(ctx, tx, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	d, err := destination.Create(ctx, tx, c.setup(), c.by, destination.CreateParams{
		OwnerID: owner, Symbol: in.Body.Symbol, Kind: in.Body.Type, Data: json.RawMessage(in.Body.Data),
	})
	if err != nil {
		return nil, err
	}
	return &userDistributionCreated{
		d.ID, d.OwnerID, string(d.Symbol), d.Allocation, c.setup().Payable(d.Symbol, d.Network),
	}, nil
}

func updateUserDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionUpdateInput,
) (*userDistributionItem, error) {
	owner, err := c.owner(ctx, tx, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	d, err := destination.Update(ctx, tx, c.setup(), c.by, destination.UpdateParams{
		OwnerID: owner, ID: in.Body.DistributionID, Symbol: in.Body.Symbol, Kind: in.Body.Type,
		Data: json.RawMessage(in.Body.Data),
	})
	if err != nil {
		return nil, err
	}
	return new(c.showUserDistribution(d)), nil
}

func correctUserDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionCorrectInput,
) (*userDistributionItem, error) {
	owner, err := c.owner(ctx, tx, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	d, err := destination.Correct(ctx, tx, c.by, owner, in.Body.DistributionID, in.Body.CorrectionID)
	if err != nil {
		return nil, err
	}
	return new(c.showUserDistribution(d)), nil
}

func deleteUserDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionDeleteInput,
) (*distributionDeleted, error) {
	owner, err := c.owner(ctx, tx, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	if err := destination.Delete(ctx, tx, c.by, owner, in.Body.DistributionID); err != nil {
		return nil, err
	}
	return &distributionDeleted{in.Body.DistributionID, true}, nil
}

func setUserAllocations(
	ctx context.Context, tx *db.Tx, c *request, in *userAllocationsInput,
) (*userAllocationsUpdated, error) {
	owner, err := c.owner(ctx, tx, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	all, err := destination.SetAllocations(ctx, tx, c.by, owner, shares(in.Body.Allocations))
	if err != nil {
		return nil, err
	}
	return &userAllocationsUpdated{true, c.showUserDistributions(all)}, nil
}

func listUserDistributions(ctx context.Context, tx *db.Tx, c *request, in *userGet) (*userDistributionList, error) {
	owner, err := c.owner(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	all, err := destination.List(ctx, tx, c.by, owner)
	if err != nil {
		return nil, err
	}
	return &userDistributionList{c.showUserDistributions(all)}, nil
}

func getUserDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionGet,
) (*userDistributionItem, error) {
	owner, err := c.owner(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	d, err := destination.Get(ctx, tx, c.by, owner, in.DistributionID)
	if err != nil {
		return nil, err
	}
	return new(c.showUserDistribution(d)), nil
}

func listUserDistributionChanges(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionHistoryInput,
) (*distributionHistory, error) {
	owner, err := c.owner(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	return distributionChanges(ctx, tx, c, owner, in.paging)
}

func getUserDistributionFields(
	ctx context.Context, tx *db.Tx, c *request, in *userDistributionFields,
) (*requiredFields, error) {
	owner, err := c.owner(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	return in.requiredOf(ctx, tx, c, owner)
}

// requiredOf is what a destination of an owner in the currency consists of.
func (w wantedCurrency) requiredOf(
	ctx context.Context, tx *db.Tx, c *request, ownerID string,
) (*requiredFields, error) {
	currency, name := cmp.Or(w.Currency, w.Symbol), "currency"
	if w.Currency == "" && w.Symbol != "" {
		name = "symbol"
	}
	if currency == "" {
		return nil, apierr.New(apierr.Invalid, "missing_field", "Set the currency, for example EUR or BTC.").At("query", name)
	}
	r, err := destination.Required(ctx, tx, c.setup(), c.by, ownerID, currency)
	if errors.Is(err, destination.ErrCurrency) {
		return nil, destination.ErrCurrency.At("query", name)
	}
	if err != nil {
		return nil, err
	}
	out := &requiredFields{
		r.Currency, r.Country, c.setup().Payable(money.Asset(r.Currency), ""), make([]requiredField, len(r.Fields)),
	}
	for i, f := range r.Fields {
		out.Fields[i] = requiredField{
			Key: f.Key, Label: f.Label, Type: f.Type, Required: f.Required, MinLength: f.MinLength, MaxLength: f.MaxLength,
			Pattern: f.Pattern, Example: f.Example, Options: options(f.Options), Checksum: f.Checksum, Rail: f.Rail,
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
	shown := make([]fieldOption, len(all))
	for i, o := range all {
		shown[i] = fieldOption{o.Value, o.Label}
	}
	return shown
}

func (c *request) showUserDistributions(all []destination.Distribution) []userDistributionItem {
	shown := make([]userDistributionItem, len(all))
	for i, d := range all {
		shown[i] = c.showUserDistribution(d)
	}
	return shown
}

func (c *request) showUserDistribution(d destination.Distribution) userDistributionItem {
	data := jsontext.Value(d.Data)
	if len(data) == 0 {
		data = jsontext.Value("{}")
	}
	return userDistributionItem{
		DistributionID: d.ID, UserID: d.OwnerID, Address: d.Address, Symbol: string(d.Symbol), Tag: d.Tag,
		TransferMemo: d.Memo, Type: d.Kind, Network: d.Network, Data: data, Allocation: d.Allocation,
		Payable: c.setup().Payable(d.Symbol, d.Network), Created: Time(d.Created), Correction: showCorrection(d.Correction),
	}
}
