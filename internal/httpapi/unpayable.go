package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

type (
	unpayableList struct {
		CompanyID string `query:"company_id"`
		paging
	}

	unpayablePage struct {
		Data []unpayableRecipient `json:"data"`
		Meta meta                 `json:"meta"`
	}

	unpayableRecipient struct {
		RecipientID string     `json:"recipient_id"`
		UserID      string     `json:"user_id" doc:"For a worker with a login."`
		Name        string     `json:"name"`
		Email       string     `json:"email"`
		Obstacles   []obstacle `json:"obstacles" doc:"Why the recipient cannot be paid, or may not be reached."`
		Asked       *Time      `json:"asked_at,omitempty" doc:"Last email to the recipient about this; missing if none."`
	}

	obstacle struct {
		Reason         unpayableReason `json:"reason"`
		DistributionID string          `json:"distribution_id" doc:"Destination that it concerns, or empty."`
		PayrollID      string          `json:"payroll_id" doc:"Payroll of the payment that stopped, or empty."`
		SubpayrollID   string          `json:"subpayroll_id" doc:"Payment that stopped, or empty."`
		PaymentReason  string          `json:"payment_reason" doc:"Reason of the payment that stopped, or empty."`
	}

	reminder struct {
		Body struct {
			CompanyID string `json:"company_id,omitempty"`
		}
	}

	reminded struct {
		Recipients  int `json:"recipients" doc:"Number of recipients who were mailed."`
		Invitations int `json:"invitations" doc:"Number of invitations that were sent again."`
	}
)

func listUnpayable(ctx context.Context, tx *db.Tx, c *request, in *unpayableList) (*unpayablePage, error) {
	all, total, err := c.Payroll.Unpayable(ctx, tx, c.by, c.company, in.page())
	if err != nil {
		return nil, err
	}
	out := &unpayablePage{Data: make([]unpayableRecipient, len(all)), Meta: in.meta(total)}
	for i, u := range all {
		r := unpayableRecipient{RecipientID: u.ID, UserID: u.UserID, Name: u.Name, Email: u.Email,
			Obstacles: make([]obstacle, len(u.Obstacles))}
		if !u.Asked.IsZero() {
			r.Asked = new(Time(u.Asked))
		}
		for j, o := range u.Obstacles {
			r.Obstacles[j].Reason = unpayableReason(o.Reason)
			if o.Destination != nil {
				r.Obstacles[j].DistributionID = o.Destination.ID
			}
			if o.Payment != nil {
				r.Obstacles[j].PayrollID, r.Obstacles[j].SubpayrollID = o.Payment.PayrollID, o.Payment.ID
				r.Obstacles[j].PaymentReason = o.Payment.Reason
			}
		}
		out.Data[i] = r
	}
	return out, nil
}

func remindRecipients(ctx context.Context, tx *db.Tx, c *request, _ *reminder) (*reminded, error) {
	done, err := c.Payroll.Remind(ctx, tx, c.Sealer, c.by, c.company)
	return &reminded{done.Payees, done.Invitations}, err
}
