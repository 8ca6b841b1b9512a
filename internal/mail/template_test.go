package mail

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/testkit"
)

var at = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// samples has data of every template in all its variants.
var samples = map[string][]any{
	Invitation:          {InvitationData{"Acme", "contractor", "tok", at}},
	InvitationRequested: {InvitationRequestedData{"Acme", "ada@example.com"}},
	PaymentSent: {PaymentSentData{"Ada", "Acme", "120.00 USD", "March", "sub_1",
		[]string{"0.00123 BTC: bc1q9h…k3d2"}}, PaymentSentData{Company: "Acme", Amount: "1.00 USD"}},
	PaymentReturned: {PaymentReturnedData{"Ada", "Acme", "120.00 USD", "sub_1"}},
	DestinationChanged: {
		DestinationChangedData{"Ada", Added, "BTC: bc1q9h…k3d2", at}, DestinationChangedData{"Ada", Removed,
			"BTC: bc1q9h…k3d2", at},
		DestinationChangedData{"Ada", Replaced, "BTC: bc1q9h…k3d2", at},
		DestinationChangedData{"Ada", Reallocated, "", at},
	},
	DirectDebit: {
		DirectDebitData{"Ada", DebitAnnounced, "120.00 EUR", "2030-01-16", "EUR ••••6789", "MDT-1", "Acme", "DE98", ""},
		DirectDebitData{"Ada", DebitFailed, "120.00 EUR", "2030-01-16", "EUR ••••6789", "MDT-1", "Acme", "DE98", "AC04"},
		DirectDebitData{"Ada", DebitReturned, "120.00 USD", "2030-01-16", "USD ••••6789", "MDT-1", "Acme", "", "R01"},
		DirectDebitData{"Ada", MandateAccepted, "", "", "EUR ••••6789", "MDT-1", "Acme", "DE98", ""},
		DirectDebitData{"Ada", MandateRevoked, "", "", "EUR ••••6789", "MDT-1", "Acme", "DE98", "revoked"},
	},
	CorrectionAsked: {
		CorrectionAskedData{"Ada", "", "USD: ••••6789", []string{"account_number", "routing_number"}, false},
		CorrectionAskedData{"Grace", "Ada", "USD: ••••6789", []string{"account_holder_name", "account_type"}, false},
		CorrectionAskedData{"Grace", "", "USD: ••••6789", []string{"account_number"}, true},
	},
	AccountNotConfirmed: {
		AccountNotConfirmedData{"Ada", "EUR: ••••3000", false, ""},
		AccountNotConfirmedData{"Ada", "EUR: ••••3000", false, "Acme"},
		AccountNotConfirmedData{"Ada", "USD: ••••6789", true, ""},
	},
	AppConnected: {AppConnectedData{"Ada", "Ledger", "Acme", []string{"read payrolls"}, at},
		AppConnectedData{App: "Ledger", At: at}},
	WebhookDisabled: {WebhookDisabledData{"Acme", "https://hooks.example.com/in", at}},
	SignUp:          {SignUpData{"tok", at}},
	MemberInvited:   {MemberInvitedData{"Acme", "developer", "tok", at}},
	ClaimPaid: {ClaimPaidData{"Acme", "120.00 EUR", "0.00240000 BTC", "Books", []string{"2 × Book: 120.00 EUR"},
		"order-17", "clm_1", at, "Enjoy your books.", "help@acme.example"},
		ClaimPaidData{Company: "Acme", Amount: "1.00 USD", Paid: "0.00002 BTC", ClaimID: "clm_1", At: at}},
	InvoiceSent: {InvoiceSentData{"usr_1", "Ada", "Northwind", "INV-0001", "120.00 EUR", "2026-03-16", "tok"},
		InvoiceSentData{From: "Ada", Payer: "N", Number: "1", Amount: "1.00 EUR", Due: "2026-03-16", Token: "tok"}},
	RefundOffered: {RefundOfferedData{"Acme", "0.00050000 BTC", "order-17", "clm_1", "tok", at},
		RefundOfferedData{Company: "Acme", Amount: "0.0005 BTC", ClaimID: "clm_1", Token: "tok", Expires: at}},
	StaffAlarm: {StaffAlarmData{"Ada", BalanceDiffers, "balance of account 2000", at},
		StaffAlarmData{"Ada", FundingReverted, "payroll prl_1", at}},
	IncomeUpdate: {
		IncomeUpdateData{"Ada", IncomeArrived, "", "120.00 EUR", "inc_1", nil},
		IncomeUpdateData{"Ada", IncomeWaits, "verification_required", "120.00 EUR", "inc_1", nil},
		IncomeUpdateData{"Ada", IncomeWaits, "no_distribution", "120.00 EUR", "inc_1", nil},
		IncomeUpdateData{"Ada", IncomeWaits, WaitsForAction, "120.00 EUR", "inc_1", nil},
		IncomeUpdateData{"Ada", IncomeWaits, "", "120.00 EUR", "inc_1", nil},
		IncomeUpdateData{"Ada", IncomePaid, "", "120.00 EUR", "inc_1", []string{"0.00123 BTC: bc1q9h…k3d2"}},
		IncomeUpdateData{"Ada", IncomeReturned, "", "120.00 EUR", "inc_1", nil},
	},
	ScheduleRun: {
		ScheduleRunData{"Ada", "Acme", "Wages", ScheduleFund, "2030-01-02", "120.00 USD", "", "/payrolls/prl_1"},
		ScheduleRunData{"Ada", "Acme", "Wages", ScheduleReview, "2030-01-02", "120.00 USD", "", "/payrolls/prl_1"},
		ScheduleRunData{"Ada", "Acme", "Wages", ScheduleLowBalance, "2030-01-02", "", "5.00 USD", "/schedules/sch_1"},
		ScheduleRunData{"Ada", "Acme", "Wages", ScheduleBlocked, "2030-01-02", "", "It is inactive.", "/schedules/sch_1"},
	},
	ProposalMade: {
		ProposalMadeData{"Ada", "Acme", "Books", "payroll", "120.00 USD", at, "/proposals/pps_1"},
		ProposalMadeData{"Ada", "Acme", "Books", "claim", "120.00 EUR", at, "/proposals/pps_2"},
	},
	MemberNotification: {
		MemberNotificationData{"Ada", "Acme", "approval_needed", "120.00 USD", "", "/payrolls/prl_1"},
		MemberNotificationData{"Ada", "Acme", "quote_ending", "0.00120000 BTC", "", "/payrolls/prl_1/fund"},
		MemberNotificationData{"Ada", "Acme", "payroll_funded", "120.00 USD", "", "/payrolls/prl_1"},
		MemberNotificationData{"Ada", "Acme", "payroll_paid", "120.00 USD", "", "/payrolls/prl_1"},
		MemberNotificationData{"Ada", "Acme", "payment_returned", "120.00 USD", "", "/payrolls/prl_1"},
		MemberNotificationData{"Ada", "Acme", "deposit_held", "7.000000 USDC", "", "/payrolls/prl_1"},
		MemberNotificationData{"Ada", "Acme", "verification", "", "approved", "/company/verification"},
		MemberNotificationData{"Ada", "Acme", "verification", "", "rejected", "/company/verification"},
		MemberNotificationData{"Ada", "Acme", "verification", "", "resubmission_required", "/company/verification"},
	},
	EmailChange:     {EmailChangeData{"Ada", "new@example.com", "tok", at}},
	DestinationLink: {DestinationLinkData{"Ada", "Acme", "tok", at}},
	DestinationCode: {DestinationCodeData{"Ada", "Acme", "123456", at}},
	PayeeReminder:   {PayeeReminderData{"Ada", "Acme", false}, PayeeReminderData{"Ada", "Acme", true}},
	AccountExists:   {AccountExistsData{"Ada"}},
	PasswordReset:   {PasswordResetData{"Ada", "tok", at}},
	AccountChanged: {
		AccountChangedData{"Ada", FactorAdded, at}, AccountChangedData{"", FactorRemoved, at},
		AccountChangedData{"Ada", RecoveryCodeUsed, at}, AccountChangedData{"Ada", RecoveryCodesReplaced, at},
		AccountChangedData{"Ada", PasswordChanged, at},
		AccountChangedData{"Ada", PasskeyAdded, at}, AccountChangedData{"Ada", PasskeyRemoved, at},
		AccountChangedData{"Ada", EmailChanged, at},
	},
	CompanyChanged: {
		CompanyChangedData{"Ada", "Acme", KeyCreated, "Books", at}, CompanyChangedData{"Ada", "Acme", SecretCreated, "Books",
			at},
		CompanyChangedData{"Ada", "Acme", CodeReplayed, "Books", at}, CompanyChangedData{"Ada", "Acme", MemberJoined,
			"eve@acme.example: admin", at},
		CompanyChangedData{"Ada", "Acme", RoleChanged, "eve@acme.example: viewer → admin", at},
		CompanyChangedData{"Ada", "Acme", WebhookAdded, "https://hooks.example.com/in", at}, CompanyChangedData{"Ada", "Acme",
			WebhookURLChanged, "https://hooks.example.com/in", at},
		CompanyChangedData{"Ada", "Acme", PlatformFeeChanged, "Books: 0.5 % → 0.7 %", at},
		CompanyChangedData{"Ada", "Acme", PlatformDisconnected, "Books", at},
	},
	KYCResult: {
		KYCResultData{"Ada", Approved, nil}, KYCResultData{"Ada", Rejected, []string{"The document is not yours."}},
		KYCResultData{"Ada", Expired, nil}, KYCResultData{"Ada", ResubmissionRequired, []string{"The photo is blurred."}},
	},
}

// pointless are the languages that write decimals with a comma.
var pointless = map[string]bool{"es": true, "pt": true, "fr": true, "de": true}

// Amounts are written as the reader's language does, in the subject, too.
func TestAmountsInMailsAreWrittenAsTheLanguageDoes(t *testing.T) {
	data, err := json.Marshal(PaymentSentData{Name: "Ada", Company: "Acme", Amount: "1655.50 USD"})
	testkit.Check(t, err)
	for tag, want := range map[string]string{"en": "1,655.50 USD", "es": "1655,50 USD", "pt": "1.655,50 USD",
		"fr": "1 655,50 USD", "de": "1.655,50 USD", "he": "1,655.50 USD"} {
		l, err := (&Mailer{}).render(row{id: "mail_1", template: PaymentSent, language: tag, data: string(data)}, false)
		testkit.Check(t, err)
		if !strings.Contains(l.Subject, want) || !strings.Contains(l.Text, want) || !strings.Contains(l.HTML, want) {
			t.Errorf("%s: want %q in\n%s\n%s", tag, want, l.Subject, l.Text)
		}
	}
}

// Every mail exists in every language and contains all its data.
func TestEveryMailIsCompleteInEveryLanguage(t *testing.T) {
	x := &Mailer{BaseURL: "https://pay.example.com"}
	seen := map[string]bool{}
	for template, variants := range samples {
		for i, data := range variants {
			encoded, err := json.Marshal(data)
			testkit.Check(t, err)
			subjects := map[string]bool{}
			for _, tag := range languages {
				l, err := x.render(row{id: "mail_1", template: template, language: tag.String(), data: string(encoded)}, false)
				if err != nil {
					t.Fatalf("%s %d in %s: %v", template, i, tag, err)
				}
				subjects[l.Subject] = true
				for part, text := range map[string]string{"subject": l.Subject, "text": l.Text, "html": l.HTML} {
					if text == "" || strings.Contains(text, "{{") || strings.Contains(text, "<no value>") ||
						strings.Contains(text, "  \n") {
						t.Errorf("%s %d in %s: the %s is\n%s", template, i, tag, part, text)
					}
				}
				for _, fact := range expected(data) {
					if plainAmount.MatchString(fact) && pointless[tag.String()] {
						fact = strings.ReplaceAll(fact, ".", ",")
					}
					if !strings.Contains(l.Text, fact) || !strings.Contains(l.HTML, fact) {
						t.Errorf("%s %d in %s lacks %q:\n%s", template, i, tag, fact, l.Text)
					}
				}
				if strings.Contains(l.HTML, "http://") || regexp.MustCompile(`(?i)\bsrc=|url\(|<script|<img|<link`).MatchString(
					l.HTML) {
					t.Errorf("%s in %s loads resources:\n%s", template, tag, l.HTML)
				}
				if links, _ := data.(linked); (strings.Count(l.HTML, "href=") != 0) != (links != nil) {
					t.Errorf("%s in %s has an unexpected link, or none:\n%s", template, tag, l.HTML)
				}
			}
			if len(subjects) != len(languages) {
				t.Errorf("%s %d: %d subjects in %d languages: %v", template, i, len(subjects), len(languages),
					slices.Sorted(maps.Keys(subjects)))
			}
			seen[template] = true
		}
	}
	if len(seen) != len(dataOf) {
		t.Errorf("samples cover %d of %d templates", len(seen), len(dataOf))
	}
}

// expected returns the texts that a mail must contain.
func expected(data any) []string {
	switch d := data.(type) {
	case InvitationData:
		return []string{d.Company, d.Role, "https://pay.example.com/invitation/tok", "2030-01-02 03:04 UTC"}
	case ScheduleRunData:
		return []string{d.Name, d.Company, d.Schedule, d.PayDate, d.Total, d.Detail, "https://pay.example.com" + d.Path}
	case ProposalMadeData:
		return []string{d.Name, d.Company, d.App, d.Amount, "2030-01-02 03:04 UTC", "https://pay.example.com" + d.Path}
	case MemberNotificationData:
		return []string{d.Name, d.Company, d.Amount, "https://pay.example.com" + d.Path}
	case InvitationRequestedData:
		return []string{d.Company, d.Email}
	case PaymentSentData:
		return append([]string{d.Name, d.Company, d.Amount, d.Description, d.Reference}, d.Arrived...)
	case PaymentReturnedData:
		return []string{d.Name, d.Company, d.Amount, d.Reference}
	case ClaimPaidData:
		return append([]string{d.Company, d.Amount, d.Paid, d.Description, d.Order, "https://pay.example.com/pay/clm_1",
			"2030-01-02 03:04 UTC", d.ThankYou, d.Support}, d.Items...)
	case RefundOfferedData:
		return []string{d.Company, d.Amount, d.Order, "https://pay.example.com/pay/clm_1/refund/tok", "2030-01-02 03:04 UTC"}
	case InvoiceSentData:
		return []string{d.From, d.Payer, d.Number, d.Amount, d.Due, "https://pay.example.com/invoice/tok"}
	case DestinationChangedData:
		return []string{d.Name, d.Destination, "2030-01-02 03:04 UTC"}
	case DirectDebitData:
		return []string{d.Name, d.Amount, d.Due, d.Account, d.Mandate, d.Creditor, d.CreditorID}
	case AppConnectedData:
		return append([]string{d.Name, d.App, d.Company}, d.Scopes...)
	case WebhookDisabledData:
		return []string{d.Company, d.Endpoint, "2030-01-02 03:04 UTC"}
	case MemberInvitedData:
		return []string{d.Company, "https://pay.example.com/join/tok", "2030-01-02 03:04 UTC"}
	case SignUpData:
		return []string{"https://pay.example.com/sign-up/tok", "2030-01-02 03:04 UTC"}
	case IncomeUpdateData:
		return append([]string{d.Name, d.Amount, d.Reference, "https://pay.example.com/account/payments/inc_1"}, d.Arrived...)
	case EmailChangeData:
		return []string{d.Name, d.Address, "https://pay.example.com/email/tok", "2030-01-02 03:04 UTC"}
	case DestinationLinkData:
		return []string{d.Name, d.Company, "https://pay.example.com/payee/tok", "2030-01-02 03:04 UTC"}
	case DestinationCodeData:
		return []string{d.Name, d.Company, d.Code, "2030-01-02 03:04 UTC"}
	case PayeeReminderData:
		return []string{d.Name, d.Company, "https://pay.example.com/account/destinations"}
	case AccountExistsData:
		return []string{d.Name, "https://pay.example.com/sign-in"}
	case PasswordResetData:
		return []string{d.Name, "https://pay.example.com/password/tok", "2030-01-02 03:04 UTC"}
	case AccountChangedData:
		return []string{d.Name, "2030-01-02 03:04 UTC"}
	case CompanyChangedData:
		return []string{d.Name, d.Company, d.Detail, "2030-01-02 03:04 UTC"}
	case KYCResultData:
		return append([]string{d.Name}, d.Reasons...)
	}
	return nil
}

func TestTheBestMatchingLanguageIsUsed(t *testing.T) {
	x := &Mailer{}
	for asked, want := range map[string]string{
		"": "en", "en-GB": "en", "es-419": "es", "pt-BR": "pt", "fr-CA": "fr", "de-AT": "de", "he-IL": "he",
		"ja": "en", "nonsense!": "en",
	} {
		l, err := x.render(row{template: KYCResult, language: asked, data: `{"Result":"approved"}`}, false)
		if err != nil || !strings.Contains(l.HTML, `lang="`+want+`"`) {
			t.Errorf("%q: %v\n%s", asked, err, l.HTML)
		}
	}
}

// TestMailsHaveTheNameOfTheService checks that mails name the service as the operator does, and leave the names of
// companies as they are.
func TestMailsHaveTheNameOfTheService(t *testing.T) {
	data, err := json.Marshal(MemberInvitedData{Company: "Stipend Imports", Token: "t"})
	testkit.Check(t, err)
	for _, tag := range languages {
		m := row{id: "mail_1", template: MemberInvited, language: tag.String(), data: string(data)}
		l, err := (&Mailer{BaseURL: "https://pay.example.com", Name: "Harbor Pay"}).render(m, false)
		testkit.Check(t, err)
		if !strings.Contains(l.Text, "Harbor Pay") || !strings.Contains(l.Text, "Stipend Imports") ||
			strings.Count(l.Text, "Stipend") != strings.Count(l.Text, "Stipend Imports") {
			t.Errorf("%s:\n%s", tag, l.Text)
		}
	}
}
