package claim

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Schedule is the interval at which a merchant's claims are settled automatically.
type Schedule string

// Schedules.
const (
	Manual Schedule = "manual" // claims are settled on request only
	Daily  Schedule = "daily"
	Weekly Schedule = "weekly"
)

const (
	maxOrigins = 10
	maxZone    = 64 // longest name of a time zone
)

// Days are the names of the days of the week, indexed by time.Weekday.
var Days = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// settingsID is the object ID of a company's settings in its history and events.
const settingsID = "merchant_settings"

// Settings are a merchant's settings for its claims. A change applies to claims that are created later.
type Settings struct {
	CompanyID string
	Policy
	// SettleIn is the settlement currency. "" is the currency of each claim; SettleInCoin is the coin of each payment; a
	// coin keeps only payments in that coin, and other payments settle in the currency of the claim.
	SettleIn string
	Origins  []string // sites, such as https://shop.example, that may embed the checkout and to which it may link
	Schedule Schedule
	TimeZone string       // IANA time zone; the schedule settles at its midnight
	Day      time.Weekday // day of a weekly settlement
	// ConvertTo is the bank currency into which settlements are exchanged. "" leaves settlements in the currency that
	// claims earned.
	ConvertTo money.Asset
	// DestinationID is a withdrawal destination of the company. Settlements in the destination's currency are paid out
	// to it. "" leaves settlements in the company's balance.
	DestinationID string
	SupportEmail  string // email address for payers, shown by the checkout; "" for none
	Version       int64  // number of changes, 0 before the first
	UpdatedAt     time.Time

	settlesAt time.Time // time of the next scheduled settlement
}

// Change has the settings that a request changes. Nil members stay unchanged.
type Change struct {
	ToleranceBps, Confirmations, GraceSeconds *int64
	Late, SettleIn, Schedule, DestinationID   *string
	TimeZone, Day, ConvertTo                  *string // Day is the English name of a day of the week, such as "monday"
	SupportEmail                              *string
	Origins                                   []string // nil leaves the origins unchanged
}

// SettingsOf reads a company's settings.
func SettingsOf(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (Settings, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return Settings{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err != nil {
		return Settings{}, err
	}
	return settingsOf(ctx, tx, company)
}

// settingsOf returns a company's settings. The defaults are: the tolerance of the company's contract, one
// confirmation, late money waits, and no other site may embed the checkout.
func settingsOf(ctx context.Context, tx *db.Tx, company identity.Company) (Settings, error) {
	s, found, err := merchants.Get(ctx, tx, company.ID)
	if err == nil && !found {
		return Settings{
			CompanyID: company.ID, Schedule: Manual, TimeZone: "UTC", Day: time.Monday,
			Policy: Policy{ToleranceBps: company.ToleranceBps, Confirmations: 1, Late: LateManual},
		}, nil
	}
	return s, err
}

// ChangeSettings applies the members of change that are not nil, and returns the new settings.
func (s *Service) ChangeSettings(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	change Change) (Settings, error) {
	now, err := SettingsOf(ctx, tx, by, companyID)
	if err != nil {
		return now, err
	}
	company, err := identity.CompanyByID(ctx, tx, now.CompanyID)
	if err != nil {
		return now, err
	}
	if err := company.Active(); err != nil {
		return now, err
	}
	was := now
	if err := now.apply(change); err != nil {
		return now, err
	}
	if id := change.DestinationID; id != nil && *id != "" {
		if to, err := withdrawal.DestinationOf(ctx, tx, now.CompanyID, *id); err != nil {
			return now, err
		} else if to.ID == "" {
			return now, errDestination.At("body", "/settlement_destination_id")
		}
	}
	now.UpdatedAt = tx.Now()
	if err := saveSettings(ctx, tx, now); err != nil {
		return now, err
	}
	if was.Schedule != now.Schedule || was.TimeZone != now.TimeZone || was.Day != now.Day {
		next, err := now.nextSettlement(tx.Now())
		if err != nil {
			return now, err
		}
		if err := saveNextSettlement(ctx, tx, now.CompanyID, next); err != nil {
			return now, err
		}
	}
	now.Version++
	db.History(tx, now.CompanyID, settingsID, now.Version, "", "changed", "changed by "+by.ID)
	return now, now.emit(tx)
}

func (s *Settings) apply(change Change) error {
	var list apierr.List
	number := func(member string, to *int64, given *int64, allowed func(int64) bool, message string) {
		switch {
		case given == nil:
		case !allowed(*given):
			list.Add("invalid_parameter", "/"+member, message)
		default:
			*to = *given
		}
	}
	number("tolerance_bps", &s.ToleranceBps, change.ToleranceBps, func(n int64) bool { return 0 <= n && n <= 500 },
		"The tolerance is 0 to 5 percent: 0 to 500 basis points.")
	number("confirmations", &s.Confirmations, change.Confirmations,
		func(n int64) bool { return slices.Contains([]int64{0, 1, 2, 6}, n) },
		"A payment needs 0, 1, 2 or 6 confirmations.")
	number("late_grace_seconds", &s.GraceSeconds, change.GraceSeconds, func(n int64) bool {
		return 0 <= n &&
			n <= 120
	}, "The grace is 0 to 120 seconds.")
	choose(&list, "late_policy", &s.Late, change.Late, LateManual, LateRequote, LateRefund)
	choose(&list, "settlement_currency", &s.SettleIn, change.SettleIn, "", SettleInCoin, string(money.BTC),
		string(money.USDC), string(money.USDT))
	choose(&list, "settlement_schedule", &s.Schedule, change.Schedule, Manual, Daily, Weekly)
	if name := change.TimeZone; name != nil {
		if _, err := time.LoadLocation(*name); err != nil || *name == "" || *name == "Local" || len(*name) > maxZone {
			list.Add("invalid_parameter", "/settlement_time_zone",
				"A time zone is a name of the IANA database, such as Europe/Paris.")
		} else {
			s.TimeZone = *name
		}
	}
	if name := change.Day; name != nil {
		day := slices.Index(Days, *name)
		if day < 0 {
			list.Add("invalid_parameter", "/settlement_day", "A day is monday to sunday.")
		} else {
			s.Day = time.Weekday(day)
		}
	}
	if to := change.ConvertTo; to != nil {
		if a, known := money.Lookup(*to); *to != "" && (!known || a.IsCrypto()) {
			list.Add("invalid_parameter", "/settlement_convert_to",
				"Settlements are converted into a bank currency; see GET /api/currencies.")
		} else {
			s.ConvertTo = a
		}
	}
	if id := change.DestinationID; id != nil {
		s.DestinationID = *id
	}
	if e := change.SupportEmail; e != nil {
		s.SupportEmail = identity.Email(&list, "/support_email", *e, false)
	}
	if change.Origins != nil {
		if len(change.Origins) > maxOrigins {
			list.Add("invalid_parameter", "/origins", "There are at most 10 origins.")
		}
		for i, text := range change.Origins {
			if !isOrigin(text) {
				list.Add("invalid_parameter", "/origins/"+strconv.Itoa(i),
					"An origin is https:// and a host, such as https://shop.example.")
			}
		}
		s.Origins = change.Origins
	}
	return list.Err()
}

func choose[T ~string](list *apierr.List, member string, to *T, given *string, options ...T) {
	switch {
	case given == nil:
	case !slices.Contains(options, T(*given)):
		list.Add("invalid_parameter", "/"+member, "This value is not one of those that are allowed.")
	default:
		*to = T(*given)
	}
}

// originRegexp matches https and a host with an optional port, with the characters that a browser's origin can have.
var originRegexp = regexp.MustCompile(`^https://[a-z0-9-]+(\.[a-z0-9-]+)*(:[1-9][0-9]{0,4})?$`)

// isOrigin reports whether a text is exactly an https origin in the form that browsers send. Origins become part of a
// response header (frame-ancestors) and of pages.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= 200 && originRegexp.MatchString(text) && u.Port() != "443"
}

// LeadsBack reports whether a return URL belongs to one of the origins.
func (s *Settings) LeadsBack(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && u.User == nil && slices.Contains(s.Origins, u.Scheme+"://"+u.Host)
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
