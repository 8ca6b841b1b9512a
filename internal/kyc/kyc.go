// Package kyc verifies the identity of people (KYC) and companies (KYB). It determines which documents a country
// requires, stores uploaded images and tax IDs encrypted, and manages the cases that a [Provider] decides.
//
// A case and its documents belong to a subject: a user, a company, or an owner of a company.
package kyc

import (
	"errors"

	"github.com/stipend/stipend/internal/identity"
)

// Service stores documents and has a provider verify them.
type Service struct {
	Sealer   *identity.Sealer
	Images   *ImageDecoder
	Provider Provider // if nil, documents are stored but no verification starts
}

// New returns a Service. It returns an error if the sealer or the decoder is missing. The provider may be nil.
func New(sealer *identity.Sealer, images *ImageDecoder, provider Provider) (*Service, error) {
	if sealer == nil || images == nil {
		return nil, errors.New("kyc: a sealer and an image decoder are required")
	}
	return &Service{sealer, images, provider}, nil
}
