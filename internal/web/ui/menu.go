package ui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/notification"
)

// CompanyPath is the path of the page on which a company is verified.
const CompanyPath = "/company/verification"

// PayPath is the path of the page on which people see what they are paid.
const PayPath = "/account/payments"

// KeysPath is the path of the page of a company's apps and API keys.
const KeysPath = "/settings/api"

// NotificationsPath is the path of the list of a member's notifications.
const NotificationsPath = "/notifications"

// SearchPath is the path of the search, and SearchField the name of the parameter with its text.
const (
	SearchPath  = "/search"
	SearchField = "q"
)

// navLink is a link of the navigation.
type navLink struct {
	Label, Path, Icon string
	Here              bool
	Count             string // what waits there, or ""
	Waiting           string // Count in words
}

// navGroup is a titled group of links.
type navGroup struct {
	Title string
	Links []navLink
}

// entry is an entry of a menu; key is the key of its label.
type entry struct{ key, path, icon string }

// The menus. The key of a group without a title is "".
var (
	companyMenu = []struct {
		key   string
		links []entry
	}{
		{"", []entry{{"overview.title", "/overview", "layout-dashboard"},
			{"notification.title", NotificationsPath, "bell"}, {"payrolls.title", "/payrolls", "send"},
			{"recipients.title", "/recipients", "users"}, {"invoices.title", "/invoices", "receipt"},
			{"claims.title", "/claims", "arrow-down-left"}, {"wallets.title", "/wallets", "wallet"},
			{"reports.title", "/reports", "scroll-text"}, {"menu.approvals", "/settings/approvals", "shield-check"}}},
		{"menu.developers", []entry{{"menu.keys", "/settings/api", "key-round"},
			{"webhooks.title", "/settings/webhooks", "webhook"},
			{"requests.title", "/settings/api/requests", "scroll-text"}}},
		{"layout.company", []entry{{"kyb.title", CompanyPath, "building-2"},
			{"members.title", "/settings/members", "users"},
			{"security.title", "/settings/security", "scroll-text"}}},
	}
	payMenu = []entry{{"pay.title", PayPath, "arrow-down-left"},
		{"destinations.own", "/account/destinations", "landmark"}, {"pay.invoices", "/account/invoices", "receipt"},
		{"kyc.title", "/account/verification", "shield-check"}, {"tax.title", "/account/tax", "scroll-text"}}
	accountMenu = []entry{{"account.title", "/account", "user"}, {"connected.title", "/account/apps", "link"}}
	shortcuts   = []entry{{"overview.title", "/overview", "layout-dashboard"}, {"payrolls.title", "/payrolls", "send"},
		{"menu.pay", "/payrolls/new", "plus"}, {"recipients.title", "/recipients", "users"},
		{"wallets.title", "/wallets", "wallet"}}
	actions = []entry{{"payrolls.new", "/payrolls/new", "plus"}, {"payrolls.import", "/payrolls/import", "upload"},
		{"recipients.new", "/recipients/new", "user-plus"}, {"invitations.new", "/invitations", "mail"},
		{"claims.new", "/claims/new", "arrow-down-left"}, {"links.new", "/claims/links/new", "link"},
		{"bill.new", "/invoices/new", "receipt"}, {"overview.add_money", "/wallets", "wallet"}}
	staffMenu = []entry{{"operations.title", StaffPath, "activity"},
		{"operations.companies", StaffPath + "/companies", "building-2"},
		{"operations.people", StaffPath + "/people", "users"},
		{"operations.payments", StaffPath + "/payments", "search"},
		{"operations.travel_rule", StaffPath + "/travel-rule", "scroll-text"},
		{"operations.retention", StaffPath + "/retention", "clock"},
		{"operations.assets", StaffPath + "/assets", "coins"},
		{"position.title", StaffPath + "/position", "scale"},
		{"reconciliation.title", StaffPath + "/reconciliation", "check-check"},
		{"expected.title", StaffPath + "/expected", "clock"}, {"reversals.title", StaffPath + "/reversals", "undo-2"},
		{"operations.debits.title", StaffPath + "/direct-debits", "landmark"},
		{"operations.jobs", StaffJobsPath, "server"}, {"operations.acts", StaffPath + "/acts", "scroll-text"}}
)

// links returns the links of a menu. The one with the longest matching path is the current page.
func (s PageData) links(all []entry) (links []navLink) {
	for _, e := range all {
		link := navLink{Label: s.T(e.key), Path: s.URL(e.path), Icon: e.icon, Here: e.path == s.section()}
		if e.path == NotificationsPath {
			link.Count, link.Waiting = s.Unread(), s.T("notification.count", s.Unread())
		}
		links = append(links, link)
	}
	return links
}

// section returns the path of the menu entry to which the page belongs, or "".
func (s PageData) section() (path string) {
	at := s.request.HTTP.URL.Path
	consider := func(all []entry) {
		for _, e := range all {
			under := at == e.path || e.path != StaffPath && strings.HasPrefix(at, e.path+"/")
			if under && len(e.path) > len(path) {
				path = e.path
			}
		}
	}
	for _, g := range companyMenu {
		consider(g.links)
	}
	consider(payMenu)
	consider(accountMenu)
	consider(staffMenu)
	if path == "" && strings.HasPrefix(at, "/invitations") {
		return "/recipients"
	}
	return path
}

// Menu returns the navigation: of staff, of the members of a company, or of a user without a company.
func (s PageData) Menu() (all []navGroup) {
	if s.request.Staff != nil {
		return []navGroup{{Links: s.links(slices.DeleteFunc(slices.Clone(staffMenu), func(e entry) bool {
			return !s.request.Staff.Member.Has(s.request.staffPages[e.path]...)
		}))}}
	}
	if s.HasCompany() {
		for _, g := range companyMenu {
			if g.key == "" {
				all = append(all, navGroup{Links: s.links(g.links)})
				continue
			}
			all = append(all, navGroup{Title: s.T(g.key), Links: s.links(g.links)})
		}
	} else {
		all = append(all, navGroup{Links: s.links(payMenu)})
	}
	return append(all, navGroup{Title: s.T("layout.account"), Links: s.links(accountMenu)})
}

// Shortcuts returns the links at the bottom of a narrow window.
func (s PageData) Shortcuts() []navLink {
	switch {
	case s.request.Staff != nil || s.request.Session == nil:
		return nil
	case !s.HasCompany():
		return s.links(append(slices.Clone(payMenu[:3]), accountMenu[0]))
	}
	return s.links(shortcuts)
}

// Actions returns links to the forms that members use most.
func (s PageData) Actions() []navLink { return s.links(actions) }

// Unread returns the number of the member's unread notifications, such as "3" or "99+", or "".
func (s PageData) Unread() string {
	switch n := s.request.Unread; {
	case n >= notification.MostUnread:
		return strconv.Itoa(notification.MostUnread-1) + "+"
	case n > 0:
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// HasCompany reports whether the user acts for a company.
func (s PageData) HasCompany() bool {
	return s.request.Session != nil && s.request.Session.Company.ID != ""
}

// May reports whether the reader is a member of staff whose role permits an action.
func (s PageData) May(action string) bool {
	return s.request.Staff != nil && s.request.Staff.Member.May(action)
}

// Staff reports whether the reader is a signed-in member of staff.
func (s PageData) Staff() bool { return s.request.Staff != nil }

// Start returns the path of the reader's start page.
func (s PageData) Start() string {
	switch {
	case s.request.Staff != nil:
		return s.URL(StaffPath)
	case s.HasCompany():
		return s.URL("/overview")
	case s.request.Session != nil:
		return s.URL(PayPath)
	}
	return s.URL("/")
}

// AccountPath returns the path of the reader's own settings.
func (s PageData) AccountPath() string {
	if s.request.Staff != nil {
		return s.URL(StaffPath)
	}
	return s.URL("/account")
}

// UserName returns the name of the signed-in reader, or the email address, or "".
func (s PageData) UserName() string {
	switch {
	case s.request.Staff != nil:
		return s.request.Staff.Member.Name
	case s.request.Session == nil:
		return ""
	}
	u := s.request.Session.User
	return cmp.Or(strings.TrimSpace(u.FirstName+" "+u.LastName), u.Email)
}

// Role returns the name of the user's role in the company.
func (s PageData) Role() string { return s.request.RoleName(s.request.Session.Role) }
