package httpapi

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
)

type (
	distributionCreateInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        distributionCreateBody
	}

	distributionCreateBody struct {
		Symbol string         `json:"symbol" minLength:"1" maxLength:"10" doc:"One of GET /api/currencies."`
		Data   jsontext.Value `json:"distribution_data"`
	}

	distributionCreated struct {
		DistributionID string `json:"distribution_id"`
		RecipientID    string `json:"recipient_id"`
		Symbol         string `json:"symbol"`
		Allocation     int    `json:"allocation"`
		Status         string `json:"status" enum:"active"`
		Payable        bool   `json:"payable"`
	}

	distributionDeleteInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        distributionDeleteBody
	}

	distributionDeleteBody struct {
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
	}

	distributionDeleted struct {
		DistributionID string `json:"distribution_id"`
		Deleted        bool   `json:"deleted"`
	}

	distributionListInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
	}

	distributionList struct {
		Distributions []distributionItem `json:"distributions"`
	}

	distributionItem struct {
		DistributionID string         `json:"distribution_id"`
		RecipientID    string         `json:"recipient_id"`
		Type           string         `json:"distribution_type" enum:"crypto,fiat"`
		Symbol         string         `json:"symbol"`
		Network        string         `json:"network"`
		Address        string         `json:"address"`
		Tag            string         `json:"tag"`
		TransferMemo   string         `json:"transfer_memo"`
		Data           jsontext.Value `json:"distribution_data" doc:"Bank data is masked."`
		Allocation     int            `json:"allocation"`
		Payable        bool           `json:"payable"`
		Created        Time           `json:"created"`
		Correction     *correction    `json:"correction,omitempty"`
	}

	correction struct {
		CorrectionID string         `json:"correction_id"`
		Code         string         `json:"code" doc:"Nacha change code: C01 to C07."`
		Reason       string         `json:"reason" doc:"Short meaning of the code."`
		Members      []string       `json:"members" doc:"Fields of distribution_data to change."`
		Data         jsontext.Value `json:"distribution_data"`
		Asked        Time           `json:"asked" doc:"When the bank's response was processed."`
	}

	distributionCorrectInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        distributionCorrectBody
	}

	distributionCorrectBody struct {
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		CorrectionID   string `json:"correction_id" minLength:"1" maxLength:"64"`
	}

	distributionGet struct {
		CompanyID      string `path:"company_id"`
		RecipientID    string `path:"recipient_id"`
		DistributionID string `query:"distribution_id" required:"true" maxLength:"64"`
	}

	distributionUpdateInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        distributionUpdateBody
	}

	distributionUpdateBody struct {
		DistributionID string         `json:"distribution_id" minLength:"1" maxLength:"64"`
		Symbol         string         `json:"symbol,omitempty" maxLength:"10" doc:"Default: unchanged."`
		Data           jsontext.Value `json:"distribution_data" doc:"Complete data, as for a new destination."`
	}

	distributionFields struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		wantedCurrency
	}

	allocationsInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        allocationsBody
	}

	allocationsBody struct {
		Allocations []allocation `json:"allocations" minItems:"1" maxItems:"100"`
	}

	allocation struct {
		DistributionID string  `json:"distribution_id" minLength:"1" maxLength:"64"`
		Allocation     Decimal `json:"allocation" doc:"An integer from 0 to 100."`
	}

	distributionHistoryInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		paging
	}

	distributionHistory struct {
		Data []distributionChange `json:"data" doc:"Newest first."`
		Meta meta                 `json:"meta"`
	}

	distributionChange struct {
		ChangeID       string            `json:"change_id"`
		DistributionID string            `json:"distribution_id"`
		Action         string            `json:"action" enum:"added,replaced,removed,reallocated"`
		By             distributionActor `json:"by"`
		Before         jsontext.Value    `json:"before,omitempty"`
		After          jsontext.Value    `json:"after,omitempty"`
		At             Time              `json:"at"`
	}

	distributionActor struct {
		Kind         string `json:"kind" enum:"api_key,oauth_token,session"`
		CredentialID string `json:"credential_id"`
		CompanyID    string `json:"company_id"`
		UserID       string `json:"user_id"`
	}

	allocationsUpdated struct {
		Updated       bool               `json:"updated"`
		Distributions []distributionItem `json:"distributions"`
	}
)

func createDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *distributionCreateInput,
) (*distributionCreated, error) {
	d, err := destination.Create(ctx, tx, c.setup(), c.by, destination.CreateParams{
		OwnerID: in.RecipientID, Symbol: in.Body.Symbol, Data: json.RawMessage(in.Body.Data),
	})
	if err != nil {
		return nil, err
	}
	return &distributionCreated{
		d.ID, d.OwnerID, string(d.Symbol), d.Allocation, "active", c.setup().Payable(d.Symbol, d.Network),
	}, nil
}

// setup is what destinations depend on in this installation.
func (c *request) setup() destination.Setup {
	return destination.Setup{
		Sealer: c.Sealer, BitcoinNetwork: c.Payroll.Network, Chain: c.Payroll.ChainName, Accounts: c.Payroll.Accounts,
	}
}

func deleteDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *distributionDeleteInput,
) (*distributionDeleted, error) {
	if err := destination.Delete(ctx, tx, c.by, in.RecipientID, in.Body.DistributionID); err != nil {
		return nil, err
	}
	return &distributionDeleted{in.Body.DistributionID, true}, nil
}

func listDistributions(
	ctx context.Context, tx *db.Tx, c *request, in *distributionListInput,
) (*distributionList, error) {
	all, err := destination.List(ctx, tx, c.by, in.RecipientID)
	if err != nil {
		return nil, err
	}
	return &distributionList{c.showDistributions(all)}, nil
}

func getDistribution(ctx context.Context, tx *db.Tx, c *request, in *distributionGet) (*distributionItem, error) {
	d, err := destination.Get(ctx, tx, c.by, in.RecipientID, in.DistributionID)
	if err != nil {
		return nil, err
	}
	return new(c.showDistribution(d)), nil
}

func updateDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *distributionUpdateInput,
) (*distributionItem, error) {
	d, err := destination.Update(ctx, tx, c.setup(), c.by, destination.UpdateParams{
		OwnerID: in.RecipientID, ID: in.Body.DistributionID, Symbol: in.Body.Symbol, Data: json.RawMessage(in.Body.Data),
	})
	if err != nil {
		return nil, err
	}
	return new(c.showDistribution(d)), nil
}

func correctDistribution(
	ctx context.Context, tx *db.Tx, c *request, in *distributionCorrectInput,
) (*distributionItem, error) {
	d, err := destination.Correct(ctx, tx, c.by, in.RecipientID, in.Body.DistributionID, in.Body.CorrectionID)
	if err != nil {
		return nil, err
	}
	return new(c.showDistribution(d)), nil
}

func getDistributionFields(
	ctx context.Context, tx *db.Tx, c *request, in *distributionFields,
) (*requiredFields, error) {
	return in.requiredOf(ctx, tx, c, in.RecipientID)
}

func setAllocations(ctx context.Context, tx *db.Tx, c *request, in *allocationsInput) (*allocationsUpdated, error) {
	all, err := destination.SetAllocations(ctx, tx, c.by, in.RecipientID, shares(in.Body.Allocations))
	if err != nil {
		return nil, err
	}
	return &allocationsUpdated{true, c.showDistributions(all)}, nil
}

func shares(allocations []allocation) []destination.Share {
	all := make([]destination.Share, len(allocations))
	for i, a := range allocations {
		all[i] = destination.Share{DistributionID: a.DistributionID, Allocation: json.Number(a.Allocation)}
	}
	return all
}

func listDistributionChanges(
	ctx context.Context, tx *db.Tx, c *request, in *distributionHistoryInput,
) (*distributionHistory, error) {
	return distributionChanges(ctx, tx, c, in.RecipientID, in.paging)
}

func distributionChanges(
	ctx context.Context, tx *db.Tx, c *request, ownerID string, p paging,
) (*distributionHistory, error) {
	limit := int64(p.size())
	some, total, err := destination.History(ctx, tx, c.by, ownerID, limit, (int64(p.Page)-1)*limit)
	if err != nil {
		return nil, err
	}
	out := &distributionHistory{Data: make([]distributionChange, len(some)), Meta: p.meta(total)}
	for i, h := range some {
		out.Data[i] = distributionChange{
			ChangeID: h.ID, DistributionID: h.DistributionID, Action: h.Action, At: Time(h.At),
			By:     distributionActor{string(h.By.Kind), h.By.CredentialID, h.By.CompanyID, h.By.UserID},
			Before: jsontext.Value(h.Before), After: jsontext.Value(h.After),
		}
	}
	return out, nil
}

func (c *request) showDistributions(all []destination.Distribution) []distributionItem {
	shown := make([]distributionItem, len(all))
	for i, d := range all {
		shown[i] = c.showDistribution(d)
	}
	return shown
}

func (c *request) showDistribution(d destination.Distribution) distributionItem {
	data := jsontext.Value(d.Data)
	if len(data) == 0 {
		data = jsontext.Value("{}")
	}
	return distributionItem{
		DistributionID: d.ID, RecipientID: d.OwnerID, Type: d.Kind, Symbol: string(d.Symbol), Network: d.Network,
		Address: d.Address, Tag: d.Tag, TransferMemo: d.Memo, Data: data, Allocation: d.Allocation,
		Payable: c.setup().Payable(d.Symbol, d.Network), Created: Time(d.Created), Correction: showCorrection(d.Correction),
	}
}

func showCorrection(c *destination.Correction) *correction {
	if c == nil {
		return nil
	}
	return &correction{c.ID, c.Code, c.Reason, c.Members, jsontext.Value(c.Data), Time(c.Asked)}
}
