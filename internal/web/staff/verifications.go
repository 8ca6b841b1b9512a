package staff

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/web/ui"
)

// verification is a verification case with its page and time.
type verification struct {
	kyc.Review
	Path  string
	Begun string
}

func newVerification(r kyc.Review) verification {
	if r.Name == "" {
		r.Name = r.SubjectID
	}
	return verification{r, "/sandbox/verifications/" + r.SubjectID, r.Opened.UTC().Format("2006-01-02 15:04 UTC")}
}

// listVerifications lists the open cases of the sandbox.
func listVerifications(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	waiting, err := c.KYC.ListInSandbox(ctx, tx)
	all := make([]verification, len(waiting))
	for i, r := range waiting {
		all[i] = newVerification(r)
	}
	return ui.View{Template: "verifications", Title: c.Text("verifications.title"), Data: all}, err
}

// showVerification renders the case of a user, owner or company, found by its ID.
func showVerification(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := c.KYC.ReviewInSandbox(ctx, tx, c.HTTP.PathValue("subject"))
	if err != nil {
		return ui.View{}, err
	}
	v := newVerification(r)
	return ui.View{Template: "verification", Title: c.Text("verification.title", v.Name), Data: v}, nil
}

// decideVerification decides the case that the form showed. If another user has already decided it, the page shows
// the result.
func decideVerification(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	subject := c.HTTP.PathValue("subject")
	err := c.KYC.DecideCaseInSandbox(ctx, tx, subject, c.Form.Get("case_id"), kyc.State(c.Form.Get("result")))
	if f, ok := apierr.As(err); ok && errors.Is(f, kyc.ErrState) || err == nil {
		return ui.View{Redirect: "/sandbox/verifications/" + subject}, nil
	}
	return ui.View{}, err
}
