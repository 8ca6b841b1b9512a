package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
)

type (
	documentTypesInput struct {
		UserID  string `query:"user_id" maxLength:"64"`
		PayerID string `query:"external_company_id" maxLength:"64"`
	}

	documentTypes struct {
		DocTypes []documentType `json:"doc_types"`
	}

	documentType struct {
		DocType                string   `json:"doc_type"`
		RequiresBackside       bool     `json:"requires_backside"`
		RequiresSelfie         bool     `json:"requires_selfie"`
		RequiresProofOfAddress bool     `json:"requires_proof_of_address"`
		TaxIDTypes             []string `json:"tax_id_types"`
	}

	uploadInput struct {
		Body  uploadBody
		image kyc.Image // read before the transaction begins
	}

	uploadBody struct {
		UserID         string `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		DocType        string `json:"doc_type" minLength:"1" maxLength:"64"`
		Category       string `json:"category,omitempty" enum:"front,back"`
		IssuingCountry string `json:"issuing_country,omitempty" maxLength:"64"`
		Base64Image    string `json:"base64_image,omitempty"`
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
		DocType: b.DocType, Category: b.Category, IssuingCountry: b.IssuingCountry, Base64: b.Base64Image, TaxID: b.TaxID,
		TaxIDType: b.TaxIDType,
	}
}

func listDocumentTypes(ctx context.Context, tx *db.Tx, c *request, in *documentTypesInput) (*documentTypes, error) {
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

func readUpload(ctx context.Context, c *request, in *uploadInput) (err error) {
	in.image, err = c.KYC.Read(ctx, c.DB, c.by, in.Body.UserID, in.Body.upload())
	return err
}

func uploadDocument(ctx context.Context, tx *db.Tx, c *request, in *uploadInput) (*succeeded, error) {
	return &succeeded{true}, c.KYC.Store(ctx, tx, c.by, in.Body.UserID, in.Body.upload(), in.image)
}

func listDocuments(ctx context.Context, tx *db.Tx, c *request, in *documentListInput) (*documentList, error) {
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
