package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
)

type (
	documentTypesInput struct {
		UserID  string `query:"user_id" maxLength:"64"`
		PayerID string `query:"external_company_id" maxLength:"64" doc:"The payer whose currency counts. Without it all of the user's count."`
	}

	documentTypes struct {
		DocTypes []documentType `json:"doc_types"`
	}

	documentType struct {
		DocType                string   `json:"doc_type" doc:"What doc_type of an upload takes. One identity document is enough."`
		RequiresBackside       bool     `json:"requires_backside"`
		RequiresSelfie         bool     `json:"requires_selfie"`
		RequiresProofOfAddress bool     `json:"requires_proof_of_address"`
		TaxIDTypes             []string `json:"tax_id_types" doc:"The tax ids that the user's country knows. One is required when the list has an entry tax_id."`
	}

	uploadInput struct {
		Body  uploadBody
		image kyc.Image // read before the transaction
	}

	uploadBody struct {
		UserID         string `json:"user_id,omitempty" maxLength:"64"`
		DocType        string `json:"doc_type" minLength:"1" maxLength:"64" doc:"tax_id, or one of the required document types."`
		Category       string `json:"category,omitempty" enum:"front,back" doc:"Of an image. Passports, proofs of address and selfies are front."`
		IssuingCountry string `json:"issuing_country,omitempty" maxLength:"64" doc:"2-letter ISO code. Of an image; of a tax id when it is not the user's country."`
		Base64Image    string `json:"base64_image,omitempty" doc:"One JPEG or PNG, at most 10 MiB and 40 megapixels, at least 600 pixels at its shorter side (in the sandbox, any size)."`
		TaxID          string `json:"tax_id,omitempty" maxLength:"64"`
		TaxIDType      string `json:"tax_id_type,omitempty" maxLength:"64"`
	}

	succeeded struct {
		Success bool `json:"success"`
	}

	documentListInput struct {
		UserID string `query:"user_id" maxLength:"64"`
	}

	documentList struct {
		Documents []documentItem `json:"documents"`
	}

	documentItem struct {
		DocType        string `json:"doc_type"`
		IssuingCountry string `json:"issuing_country"`
	}
)

func (b *uploadBody) upload() kyc.Upload {
	return kyc.Upload{
		DocType: b.DocType, Category: b.Category, IssuingCountry: b.IssuingCountry, Base64: b.Base64Image, TaxID: b.TaxID, TaxIDType: b.TaxIDType,
	}
}

func listDocumentTypes(ctx context.Context, tx *db.Tx, c *call, in *documentTypesInput) (*documentTypes, error) {
	required, err := c.KYC.Types(ctx, tx, c.by, in.UserID, in.PayerID)
	if err != nil {
		return nil, err
	}
	out := &documentTypes{DocTypes: make([]documentType, len(required))}
	for i, r := range required {
		out.DocTypes[i] = documentType(r)
	}
	return out, nil
}

func readUpload(ctx context.Context, c *call, in *uploadInput) (err error) {
	in.image, err = c.KYC.Read(ctx, c.DB, c.by, in.Body.UserID, in.Body.upload())
	return err
}

func uploadDocument(ctx context.Context, tx *db.Tx, c *call, in *uploadInput) (*succeeded, error) {
	return &succeeded{true}, c.KYC.Store(ctx, tx, c.by, in.Body.UserID, in.Body.upload(), in.image)
}

func listDocuments(ctx context.Context, tx *db.Tx, c *call, in *documentListInput) (*documentList, error) {
	list, err := c.KYC.List(ctx, tx, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	out := &documentList{Documents: make([]documentItem, len(list))}
	for i, d := range list {
		out.Documents[i] = documentItem(d)
	}
	return out, nil
}
