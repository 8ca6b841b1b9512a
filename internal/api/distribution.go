package api

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/distribution"
)

type (
	distributionCreateInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        distributionCreateBody
	}

	distributionCreateBody struct {
		Symbol string         `json:"symbol" maxLength:"10"`
		Data   jsontext.Value `json:"distribution_data" doc:"An object with the members that the symbol and the payee's country ask for."`
	}

	distributionCreated struct {
		DistributionID string `json:"distribution_id"`
		RecipientID    string `json:"recipient_id"`
		Symbol         string `json:"symbol"`
		Allocation     int    `json:"allocation"`
		Status         string `json:"status"`
	}

	distributionDeleteInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        distributionDeleteBody
	}

	distributionDeleteBody struct {
		DistributionID string `json:"distribution_id" maxLength:"64"`
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
		Type           string         `json:"distribution_type"`
		Symbol         string         `json:"symbol"`
		Network        string         `json:"network"`
		Address        string         `json:"address"`
		Tag            string         `json:"tag"`
		TransferMemo   string         `json:"transfer_memo"`
		Data           jsontext.Value `json:"distribution_data" doc:"Bank data is masked."`
		Allocation     int            `json:"allocation"`
		Created        Time           `json:"created"`
	}

	allocationsInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        allocationsBody
	}

	allocationsBody struct {
		Allocations []allocation `json:"allocations" maxItems:"100" doc:"1 to 3, totalling 100. A destination that is not named gets 0."`
	}

	allocation struct {
		DistributionID string  `json:"distribution_id" maxLength:"64"`
		Allocation     Decimal `json:"allocation" doc:"An integer from 0 to 100."`
	}

	allocationsUpdated struct {
		Updated       bool               `json:"updated"`
		Distributions []distributionItem `json:"distributions"`
	}
)

func createDistribution(ctx context.Context, tx *db.Tx, c *call, in *distributionCreateInput) (*distributionCreated, error) {
	setup := distribution.Setup{Sealer: c.Sealer, BitcoinNetwork: c.Payroll.Network}
	d, err := distribution.Create(ctx, tx, setup, c.by, distribution.CreateParams{
		OwnerID: in.RecipientID, Symbol: in.Body.Symbol, Data: json.RawMessage(in.Body.Data),
	})
	if err != nil {
		return nil, err
	}
	return &distributionCreated{d.ID, d.OwnerID, string(d.Symbol), d.Allocation, "active"}, nil
}

func deleteDistribution(ctx context.Context, tx *db.Tx, c *call, in *distributionDeleteInput) (*distributionDeleted, error) {
	if err := distribution.Delete(ctx, tx, c.by, in.RecipientID, in.Body.DistributionID); err != nil {
		return nil, err
	}
	return &distributionDeleted{in.Body.DistributionID, true}, nil
}

func listDistributions(ctx context.Context, tx *db.Tx, c *call, in *distributionListInput) (*distributionList, error) {
	all, err := distribution.List(ctx, tx, c.by, in.RecipientID)
	if err != nil {
		return nil, err
	}
	return &distributionList{showDistributions(all)}, nil
}

func setAllocations(ctx context.Context, tx *db.Tx, c *call, in *allocationsInput) (*allocationsUpdated, error) {
	shares := make([]distribution.Share, len(in.Body.Allocations))
	for i, a := range in.Body.Allocations {
		shares[i] = distribution.Share{DistributionID: a.DistributionID, Allocation: json.Number(a.Allocation)}
	}
	all, err := distribution.SetAllocations(ctx, tx, c.by, in.RecipientID, shares)
	if err != nil {
		return nil, err
	}
	return &allocationsUpdated{true, showDistributions(all)}, nil
}

func showDistributions(all []distribution.Distribution) []distributionItem {
	shown := make([]distributionItem, len(all))
	for i, d := range all {
		shown[i] = distributionItem{
			DistributionID: d.ID, RecipientID: d.OwnerID, Type: d.Kind, Symbol: string(d.Symbol), Network: d.Network, Address: d.Address,
			Tag: d.Tag, TransferMemo: d.Memo, Data: jsontext.Value(d.Data), Allocation: d.Allocation, Created: Time(d.Created),
		}
		if len(d.Data) == 0 {
			shown[i].Data = jsontext.Value("{}")
		}
	}
	return shown
}
