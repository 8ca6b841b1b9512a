package httpapi

import (
	"context"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
)

type (
	kycInitiateInput struct{ Body kycInitiateBody }

	kycInitiateBody struct {
		UserID string `json:"user_id,omitempty" minLength:"1" maxLength:"64" doc:"Required with an API key."`
	}

	kycInitiated struct {
		UserID string `json:"user_id"`
	}

	onboardInput struct{ Body onboardBody }

	onboardBody struct {
		CompanyID          string `json:"company_id,omitempty" maxLength:"64"`
		Name               string `json:"name" maxLength:"200" doc:"Legal name."`
		Country            string `json:"country" maxLength:"2" format:"country" doc:"Of incorporation, 2-letter ISO code."`
		Email              string `json:"email,omitempty" maxLength:"254"`
		Website            string `json:"website,omitempty" maxLength:"300"`
		RegistrationNumber string `json:"registration_number,omitempty" maxLength:"64"`
		IncorporationDate  string `json:"incorporation_date,omitempty" maxLength:"10" doc:"YYYY-MM-DD"`
		StreetAddress      string `json:"street_address,omitempty" maxLength:"200"`
		City               string `json:"city,omitempty" maxLength:"100"`
		StreetAddress2     string `json:"street_address_2,omitempty" maxLength:"200"`
		State              string `json:"state,omitempty" maxLength:"100"`
		Zip                string `json:"zip,omitempty" maxLength:"20"`
		Description        string `json:"description,omitempty" maxLength:"500" doc:"What the company does."`
		LEI                string `json:"lei,omitempty" maxLength:"20"`
	}

	companyVerification struct {
		CompanyID string          `json:"company_id"`
		KYBStatus kybState        `json:"kyb_status"`
		KYBState  onboardingState `json:"kyb_state"`
		Missing   []string        `json:"missing" doc:"Fields and documents that are still missing."`
	}

	ownerInput struct {
		CompanyID string `path:"company_id"`
		Body      ownerBody
	}

	ownerBody struct {
		FirstName           string  `json:"first_name" maxLength:"100"`
		LastName            string  `json:"last_name" maxLength:"100"`
		DateOfBirth         string  `json:"date_of_birth" maxLength:"10" doc:"YYYY-MM-DD"`
		Country             string  `json:"country" maxLength:"2" doc:"2-letter ISO code."`
		OwnershipPercentage Decimal `json:"ownership_percentage,omitempty"`
		ControlPerson       bool    `json:"control_person,omitempty"`
		Email               string  `json:"email,omitempty" maxLength:"254"`
		PhoneNumber         string  `json:"phone_number,omitempty" maxLength:"40"`
		StreetAddress       string  `json:"street_address,omitempty" maxLength:"200"`
		StreetAddress2      string  `json:"street_address_2,omitempty" maxLength:"200"`
		City                string  `json:"city,omitempty" maxLength:"100"`
		State               string  `json:"state,omitempty" maxLength:"100"`
		Zip                 string  `json:"zip,omitempty" maxLength:"20"`
	}

	ownerStatus struct {
		UBOID     string   `json:"ubo_id"`
		KYCStatus kycState `json:"kyc_status"`
	}

	ownerKYCInput struct {
		CompanyID string `path:"company_id"`
		Body      ownerKYCBody
	}

	ownerKYCBody struct {
		UBOID string `json:"ubo_id" minLength:"1" maxLength:"64"`
	}

	companyUploadInput struct {
		CompanyID string `path:"company_id"`
		Body      companyUploadBody
		image     kyc.Image // read before the transaction begins
	}

	companyUploadBody struct {
		UBOID          string `json:"ubo_id,omitempty" maxLength:"64" doc:"Owner whose document it is. Default: the company."`
		DocType        string `json:"doc_type" minLength:"1" maxLength:"64"`
		Category       string `json:"category,omitempty" enum:"front,back" doc:"For an owner's image."`
		IssuingCountry string `json:"issuing_country,omitempty" maxLength:"64" doc:"2-letter ISO code."`
		Base64Image    string `json:"base64_image,omitempty"`
		TaxID          string `json:"tax_id,omitempty" maxLength:"64"`
		TaxIDType      string `json:"tax_id_type,omitempty" maxLength:"64"`
	}

	kybInput struct {
		CompanyID string `path:"company_id"`
		Body      none
	}

	sandboxKYCInput struct{ Body sandboxKYCBody }

	sandboxKYCBody struct {
		UserID string `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		Result string `json:"result" enum:"in_review,approved,resubmission_required,rejected,expired"`
	}

	sandboxKYC struct {
		UserID    string   `json:"user_id"`
		KYCStatus kycState `json:"kyc_status"`
	}

	sandboxKYBInput struct{ Body sandboxKYBBody }

	sandboxKYBBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		UBOID     string `json:"ubo_id,omitempty" maxLength:"64"`
		Result    string `json:"result" enum:"approved,more_info,resubmission_required,rejected,suspended"`
	}

	sandboxKYB struct {
		CompanyID string       `json:"company_id"`
		KYBStatus reviewResult `json:"kyb_status"`
		KYBState  reviewState  `json:"kyb_state"`
	}
)

func initiateKYC(ctx context.Context, tx *db.Tx, c *request, in *kycInitiateInput) (*kycInitiated, error) {
	user, err := c.KYC.Initiate(ctx, tx, c.by, in.Body.UserID)
	return &kycInitiated{user.ID}, err
}

func onboardCompany(ctx context.Context, tx *db.Tx, c *request, in *onboardInput) (*companyVerification, error) {
	b := &in.Body
	_, err := c.KYC.Onboard(ctx, tx, c.by, c.company, kyc.CompanyProfile{
		Name: b.Name, Country: b.Country, Email: b.Email, Website: b.Website, RegistrationNumber: b.RegistrationNumber,
		IncorporationDate: b.IncorporationDate, StreetAddress: b.StreetAddress, StreetAddress2: b.StreetAddress2,
		City: b.City, State: b.State, Zip: b.Zip, Description: b.Description, LEI: b.LEI,
	})
	if err != nil {
		return nil, err
	}
	return companyVerificationOf(ctx, tx, c)
}

func companyVerificationOf(ctx context.Context, tx *db.Tx, c *request) (*companyVerification, error) {
	company, err := identity.CompanyByID(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	o, err := c.KYC.OnboardingOf(ctx, tx, c.company)
	if o.Missing == nil {
		o.Missing = []string{}
	}
	return &companyVerification{company.ID, kybState(company.KYBStatus), onboardingState(o.State), o.Missing}, err
}

func addOwner(ctx context.Context, tx *db.Tx, c *request, in *ownerInput) (*ownerStatus, error) {
	b := &in.Body
	bps, ok := percentage(b.OwnershipPercentage)
	if !ok {
		return nil, apierr.New(apierr.Invalid, "invalid_parameter", "The value must be a percentage from 0 to 100 with at "+
			"most 2 decimals.").At("body", "/ownership_percentage")
	}
	o, err := c.KYC.AddOwner(ctx, tx, c.by, c.company, kyc.Owner{
		OwnershipBps: bps, Control: b.ControlPerson,
		Person: kyc.Person{
			FirstName: b.FirstName, LastName: b.LastName, Email: b.Email, PhoneNumber: b.PhoneNumber, DateOfBirth: b.DateOfBirth,
			Country: b.Country, StreetAddress: b.StreetAddress, StreetAddress2: b.StreetAddress2, City: b.City, State: b.State,
			Zip: b.Zip,
		},
	})
	return &ownerStatus{o.ID, kycState(o.KYCStatus)}, err
}

// percentage parses a percentage into hundredths of a percent.
func percentage(d Decimal) (bps int64, ok bool) {
	whole, fraction, _ := strings.Cut(string(d), ".")
	if fraction = strings.TrimRight(fraction, "0"); len(fraction) > 2 {
		return 0, false
	}
	if whole == "" {
		whole = "0"
	}
	bps, err := strconv.ParseInt(whole+fraction+"00"[len(fraction):], 10, 64)
	return bps, err == nil && bps >= 0 && bps <= 10_000 && whole[0] != '-'
}

// hundredths formats hundredths of a percent as a percentage.
func hundredths(bps int64) Decimal {
	text := strconv.FormatInt(bps/100, 10)
	if rest := bps % 100; rest > 0 {
		text += strings.TrimRight("."+strconv.FormatInt(rest+100, 10)[1:], "0")
	}
	return Decimal(text)
}

func initiateOwnerKYC(ctx context.Context, tx *db.Tx, c *request, in *ownerKYCInput) (*ownerStatus, error) {
	o, err := c.KYC.InitiateOwner(ctx, tx, c.by, c.company, in.Body.UBOID)
	return &ownerStatus{o.ID, kycState(o.KYCStatus)}, err
}

func (b *companyUploadBody) upload() kyc.Upload {
	u := kyc.Upload{
		DocType: b.DocType, Category: b.Category, IssuingCountry: b.IssuingCountry, Base64: b.Base64Image, TaxID: b.TaxID,
		TaxIDType: b.TaxIDType,
	}
	if b.UBOID == "" && u.DocType != kyc.TaxID && u.Category == "" {
		u.Category = kyc.Front // documents of a company have only one side
	}
	return u
}

func readCompanyUpload(ctx context.Context, c *request, in *companyUploadInput) (err error) {
	in.image, err = c.KYC.ReadFor(ctx, c.DB, c.by, c.company, in.Body.UBOID, in.Body.upload())
	return err
}

func uploadCompanyDocument(ctx context.Context, tx *db.Tx, c *request, in *companyUploadInput) (*succeeded, error) {
	return &succeeded{true}, c.KYC.StoreFor(ctx, tx, c.by, c.company, in.Body.UBOID, in.Body.upload(), in.image)
}

func initiateKYB(ctx context.Context, tx *db.Tx, c *request, _ *kybInput) (*companyVerification, error) {
	if _, err := c.KYC.InitiateCompany(ctx, tx, c.by, c.company); err != nil {
		return nil, err
	}
	return companyVerificationOf(ctx, tx, c)
}

func decideKYC(ctx context.Context, tx *db.Tx, c *request, in *sandboxKYCInput) (*sandboxKYC, error) {
	userID, status, err := c.KYC.DecideInSandbox(ctx, tx, c.by, in.Body.UserID, in.Body.Result)
	return &sandboxKYC{userID, kycState(status)}, err
}

func decideKYB(ctx context.Context, tx *db.Tx, c *request, in *sandboxKYBInput) (*sandboxKYB, error) {
	state, err := c.KYC.DecideCompanyInSandbox(ctx, tx, c.by, c.company, in.Body.UBOID, in.Body.Result)
	return &sandboxKYB{c.company, reviewResult(state.Public()), reviewState(state)}, err
}
