package destination

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
)

// Share is the requested part of each payment that goes to a destination: exactly one of a percentage, a fixed amount
// and the remainder. Numbers are texts, so that 33.333 is rejected instead of rounded.
type Share struct {
	DistributionID string
	Allocation     json.Number // percentage; "" if the part is not a percentage
	FixedAmount    string      // decimal; "" if the part is not a fixed amount
	FixedCurrency  string
	Remainder      bool // the percentage that remains after the other destinations
}

// part is a validated Share.
type part struct {
	percent int
	fixed   money.Amount // the zero Amount if the part is not a fixed amount
}

// parts checks the rules that need no database, and returns the parts by destination ID.
func parts(shares []Share) (map[string]part, error) {
	var problems apierr.List
	if len(shares) == 0 {
		problems.Add("missing_field", "/allocations", "Name 1 to 3 destinations with their allocations.")
		return nil, problems.Err()
	}
	if len(shares) > Most {
		return nil, ErrLimit.At("body", "/allocations")
	}
	total, remainder, wanted := 0, "", make(map[string]part, len(shares))
	for i, s := range shares {
		at := "/allocations/" + strconv.Itoa(i)
		if strings.TrimSpace(s.DistributionID) == "" {
			problems.Add("missing_field", at+"/distribution_id", "Name the destination.")
		}
		if _, twice := wanted[s.DistributionID]; twice {
			problems.Add(ErrAllocation.Code, at+"/distribution_id", ErrAllocation.Detail)
		}
		var p part
		percent, fixed := s.Allocation != "", s.FixedAmount != "" || s.FixedCurrency != ""
		switch {
		case fixed && (s.Remainder || percent && s.Allocation != "0"), s.Remainder && percent:
			problems.Add(ErrFixed.Code, at, ErrFixed.Detail)
		case fixed:
			p.fixed = s.fixed(&problems, at)
		case s.Remainder && remainder != "":
			problems.Add(ErrRemainder.Code, at+"/remainder", ErrRemainder.Detail)
		case s.Remainder:
			remainder = s.DistributionID
		case !percent:
			problems.Add("missing_field", at+"/allocation", "Set allocation, fixed_amount or remainder.")
		default:
			n, err := strconv.Atoi(s.Allocation.String())
			if err != nil || n < 0 || n > 100 {
				problems.Add(ErrAllocation.Code, at+"/allocation", ErrAllocation.Detail)
			}
			p.percent = n
			total += n
		}
		wanted[s.DistributionID] = p
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if remainder != "" && total < 100 {
		wanted[remainder] = part{percent: 100 - total}
	} else if remainder != "" || total != 100 {
		return nil, ErrTotal.At("body", "/allocations")
	}
	return wanted, nil
}

// CheckShares returns an error if the shares violate a rule that needs no database; [SetAllocations] returns the same
// error.
func CheckShares(shares []Share) error {
	_, err := parts(shares)
	return err
}

// fixed returns the fixed amount of a share. It adds problems with the amount to the list.
func (s Share) fixed(problems *apierr.List, at string) money.Amount {
	asset, known := money.Lookup(s.FixedCurrency)
	switch {
	case s.FixedCurrency == "":
		problems.Add("missing_field", at+"/fixed_currency", "Set the currency of the fixed amount.")
		return money.Amount{}
	case s.FixedAmount == "":
		problems.Add("missing_field", at+"/fixed_amount", "Set the fixed amount.")
		return money.Amount{}
	case !known || asset.IsCrypto():
		problems.Add(ErrCurrency.Code, at+"/fixed_currency",
			"The currency of a fixed amount must be one in which payrolls and incomes are paid, such as USD.")
		return money.Amount{}
	}
	amount, err := money.Parse(asset, s.FixedAmount)
	if err == nil && amount.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if f, ok := apierr.As(err); ok {
		problems.Add(f.Code, at+"/fixed_amount", f.Detail)
	}
	return amount
}

// allocated describes the part of a destination for the history.
func allocated(d Destination) string {
	if d.Fixed.Sign() > 0 {
		return "fixed " + d.Fixed.String() + " " + string(d.Fixed.Asset())
	}
	return "allocation " + strconv.Itoa(d.Allocation)
}

// WithShares returns a copy of an owner's destinations with the requested parts. Destinations that the shares do not
// name get no part. It returns ErrAllocation, ErrFixed, ErrRemainder or ErrTotal for invalid parts, ErrLimit for more
// than three shares, and apierr.NotFoundErr if a share names a destination that is not in own.
func WithShares(own []Destination, shares []Share) ([]Destination, error) {
	wanted, err := parts(shares)
	if err != nil {
		return nil, err
	}
	all, known := slices.Clone(own), 0
	for i := range all {
		p, ok := wanted[all[i].ID]
		if ok {
			known++
		}
		all[i].Allocation, all[i].Fixed = p.percent, p.fixed
	}
	if known != len(wanted) {
		return nil, apierr.NotFoundErr
	}
	return all, nil
}

// SetAllocations sets the parts of all destinations of an owner at once, by the rules of [WithShares]. If it returns
// an error, nothing has changed.
func SetAllocations(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID string,
	shares []Share) ([]Destination, error) {
	owner, err := changeable(ctx, tx, by, ownerID)
	if err != nil {
		return nil, err
	}
	if err := CheckShares(shares); err != nil {
		return nil, err // checked first, so that an owner without destinations gets these errors, too
	}
	version, err := queueUp(ctx, tx, owner.ID)
	if err != nil {
		return nil, err
	}
	found, err := ForOwners(ctx, tx, []string{owner.ID})
	if err != nil {
		return nil, err
	}
	own := found[owner.ID]
	all, err := WithShares(own, shares)
	if err != nil {
		return nil, err
	}
	var changes []change
	for i := range own {
		before, d := &own[i], &all[i]
		if d.Allocation == before.Allocation && d.Fixed == before.Fixed {
			continue
		}
		if err := setAllocation(ctx, tx, *before, *d); err != nil {
			return nil, err
		}
		db.History(tx, by.CompanyID, d.ID, version, allocated(*before), allocated(*d), "allocations set")
		changes = append(changes, change{before, d})
	}
	if len(changes) > 0 {
		if err := tell(ctx, tx, by, owner, version, mail.Reallocated, changes...); err != nil {
			return nil, err
		}
	}
	return all, payee.ActivateEverywhere(ctx, tx, by, owner)
}
