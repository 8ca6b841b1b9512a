package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/travelrule"
)

// Declarations about the wallets of destinations, which the travel rule requires.
type (
	walletHosting struct {
		Hosting  string `json:"hosting" enum:"self_hosted,vasp"`
		VASPName string `json:"vasp_name,omitempty" maxLength:"100"`
		VASPLEI  string `json:"vasp_lei,omitempty" maxLength:"20"`
	}

	recipientWalletInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientWalletBody
	}

	recipientWalletBody struct {
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		Hosting        string `json:"hosting" enum:"self_hosted,vasp"`
		VASPName       string `json:"vasp_name,omitempty" maxLength:"100"`
		VASPLEI        string `json:"vasp_lei,omitempty" maxLength:"20"`
	}

	userWalletInput struct{ Body userWalletBody }

	userWalletBody struct {
		UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		Hosting        string `json:"hosting" enum:"self_hosted,vasp"`
		VASPName       string `json:"vasp_name,omitempty" maxLength:"100"`
		VASPLEI        string `json:"vasp_lei,omitempty" maxLength:"20"`
	}

	recipientWalletProofInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientWalletProofBody
	}

	recipientWalletProofBody struct {
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		Signature      string `json:"signature" minLength:"1" maxLength:"4096"`
	}

	userWalletProofInput struct{ Body userWalletProofBody }

	userWalletProofBody struct {
		UserID         string `json:"user_id" minLength:"1" maxLength:"64"`
		DistributionID string `json:"distribution_id" minLength:"1" maxLength:"64"`
		Signature      string `json:"signature" minLength:"1" maxLength:"4096"`
	}

	walletDetails struct {
		DistributionID   string `json:"distribution_id"`
		Hosting          string `json:"hosting" enum:"self_hosted,vasp,"`
		VASPName         string `json:"vasp_name"`
		VASPLEI          string `json:"vasp_lei"`
		Challenge        string `json:"challenge"`
		ChallengeExpires *Time  `json:"challenge_expires,omitempty"`
		ProofFormat      string `json:"proof_format" enum:"eip191,bip322,bip137,"`
		Proved           *Time  `json:"proved,omitempty"`
	}
)

func showWallet(d destination.Destination, w travelrule.Wallet, now time.Time) *walletDetails {
	out := &walletDetails{DistributionID: d.ID, Hosting: string(w.Hosting), VASPName: w.VASP.Name, VASPLEI: w.VASP.LEI}
	if w.Challenge != nil && now.Before(w.Challenge.Expires) {
		out.Challenge, out.ChallengeExpires = w.Challenge.Message, (*Time)(&w.Challenge.Expires)
	}
	if w.Proof != nil {
		out.ProofFormat, out.Proved = w.Proof.Format, (*Time)(&w.Proof.At)
	}
	return out
}

// declareNew stores the declaration about the wallet of a destination that was just created or replaced. It does
// nothing if w is nil.
func declareNew(ctx context.Context, tx *db.Tx, c *request, d destination.Destination, w *walletHosting) error {
	if w == nil {
		return nil
	}
	_, err := c.TravelRule.Declare(ctx, tx, c.by, d, travelrule.Statement(*w))
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		for i := range f.Fields {
			f.Fields[i].Pointer = "/wallet" + f.Fields[i].Pointer
		}
		return f
	}
	return err
}

func declareWallet(
	ctx context.Context, tx *db.Tx, c *request, ownerID, id string, t travelrule.Statement,
) (*walletDetails, error) {
	d, err := destination.Get(ctx, tx, c.by, ownerID, id)
	if err != nil {
		return nil, err
	}
	w, err := c.TravelRule.Declare(ctx, tx, c.by, d, t)
	return showWallet(d, w, tx.Now()), err
}

func proveWallet(
	ctx context.Context, tx *db.Tx, c *request, ownerID, id, signature string,
) (*walletDetails, error) {
	d, err := destination.Get(ctx, tx, c.by, ownerID, id)
	if err != nil {
		return nil, err
	}
	w, err := c.TravelRule.Prove(ctx, tx, c.by, d, signature)
	return showWallet(d, w, tx.Now()), err
}

func getWallet(ctx context.Context, tx *db.Tx, c *request, ownerID, id string) (*walletDetails, error) {
	d, err := destination.Get(ctx, tx, c.by, ownerID, id)
	if err != nil {
		return nil, err
	}
	w, err := c.TravelRule.Wallet(ctx, tx, d)
	return showWallet(d, w, tx.Now()), err
}

func declareRecipientWallet(
	ctx context.Context, tx *db.Tx, c *request, in *recipientWalletInput,
) (*walletDetails, error) {
	b := &in.Body
	return declareWallet(ctx, tx, c, in.RecipientID, b.DistributionID,
		travelrule.Statement{Hosting: b.Hosting, VASPName: b.VASPName, VASPLEI: b.VASPLEI})
}

func declareUserWallet(ctx context.Context, tx *db.Tx, c *request, in *userWalletInput) (*walletDetails, error) {
	b := &in.Body
	return forUser(ctx, tx, c, b.UserID, func(id string) (*walletDetails, error) {
		return declareWallet(ctx, tx, c, id, b.DistributionID,
			travelrule.Statement{Hosting: b.Hosting, VASPName: b.VASPName, VASPLEI: b.VASPLEI})
	})
}

func proveRecipientWallet(
	ctx context.Context, tx *db.Tx, c *request, in *recipientWalletProofInput,
) (*walletDetails, error) {
	return proveWallet(ctx, tx, c, in.RecipientID, in.Body.DistributionID, in.Body.Signature)
}

func proveUserWallet(ctx context.Context, tx *db.Tx, c *request, in *userWalletProofInput) (*walletDetails, error) {
	return forUser(ctx, tx, c, in.Body.UserID, func(id string) (*walletDetails, error) {
		return proveWallet(ctx, tx, c, id, in.Body.DistributionID, in.Body.Signature)
	})
}

func getRecipientWallet(
	ctx context.Context, tx *db.Tx, c *request, in *recipientDestinationGet,
) (*walletDetails, error) {
	return getWallet(ctx, tx, c, in.RecipientID, in.DistributionID)
}

func getUserWallet(ctx context.Context, tx *db.Tx, c *request, in *userDestinationGet) (*walletDetails, error) {
	return forUser(ctx, tx, c, in.UserID, func(id string) (*walletDetails, error) {
		return getWallet(ctx, tx, c, id, in.DistributionID)
	})
}
