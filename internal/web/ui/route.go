package ui

import (
	"context"
	"net/http"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
)

// Kind is how a route uses the database. By default a GET is a Read and a POST is a Write.
type Kind int

// The kinds of routes.
const (
	byMethod     Kind = iota // Read for GET, Write for POST
	Plain                    // no transaction
	Read                     // a page, rendered in one read-only transaction
	ReadOnlyForm             // a posted form that changes nothing, in one read-only transaction
	Write                    // a posted form, in one transaction
	Stream                   // a stream of events with the live part of a page, sent again after each change
	MultiStep                // a posted form whose handler opens its own transactions, with slow work between them
)

// Access is who may use a route. A posted form of a signed-in user must also carry the form token of the session.
type Access int

// The levels of access, from the lowest to the highest.
const (
	noAccess      Access = iota // not declared; New panics
	Anyone                      // also without signing in
	SignedIn                    // any signed-in user
	Member                      // any member of a company
	Manager                     // all members except viewers
	Administrator               // owners and administrators
	StaffOnly                   // staff of the operator
)

// Factor is the second factor that a route requires. Members of a seeded company need none.
type Factor int

// The requirements for a second factor.
const (
	// none
	PasswordOnly Factor = iota
	ProvenFactor        // used at any time in this session
	FreshFactor         // used within session.Fresh; for money and credentials
)

// Route is one entry of the route table.
type Route struct {
	Method, Path string
	Kind         Kind
	Access       Access
	Handler      handler
	// Factor is the second factor that the route requires.
	Factor Factor
	// Enrolls marks routes that set up a second factor. A user without one must have signed in recently, or enter the
	// password again.
	Enrolls bool
	// Roles are the roles of staff that may use a route with access StaffOnly, besides administrators. New panics if
	// such a route has none.
	Roles []backoffice.Role
	// FormPage renders the page again after its form was rejected, with each problem at its field. Without it, a
	// rejected form gets an error page.
	FormPage handler
	// Notice is the key, after "notice.", of the message that confirms a posted form on the page of its redirect.
	Notice string
	// Public marks pages without personal or company data. Only these may be cached and indexed.
	Public bool
	// MaxBody is the maximum size of the request body in bytes; 0 means FormLimit. Only a form with a larger limit may
	// upload files.
	MaxBody int64
	// Scarce marks forms for anyone that create something: each network can send a few a minute.
	Scarce bool
	// SandboxOnly marks routes that exist only in a sandbox.
	SandboxOnly bool
	// DecidesKYC marks pages on which a sandbox user decides verifications.
	DecidesKYC bool
	// NeedsKYC marks pages that require Deps.KYC.
	NeedsKYC bool
	// NeedsSSO and NeedsStaffSSO mark pages that require Deps.SSO and Deps.StaffSSO.
	NeedsSSO, NeedsStaffSSO bool
	// Simulated marks forms that simulate deposits or advance the clock.
	Simulated bool
	// BeforeTerms marks pages that a user can use before accepting the legal texts.
	BeforeTerms bool
	// WhileFrozen marks forms that a member of a frozen company can send.
	WhileFrozen bool
	// Staff marks the sign-in pages of staff. Like routes with access StaffOnly, they require Deps.Backoffice.
	Staff bool
}

// changesCompany reports whether a route is refused while the company is frozen.
func (rt Route) changesCompany() bool {
	return rt.Access >= Member && rt.Method == http.MethodPost && rt.Kind != ReadOnlyForm && !rt.Simulated &&
		!rt.WhileFrozen
}

// handler serves a route. Because its transaction may be retried, it must have no effect outside tx. For a Plain
// route, tx is nil.
type handler func(ctx context.Context, tx *db.Tx, c *Request) (View, error)

// View is the response to a request: a page, a redirect or a file.
type View struct {
	Template       string // the name of a file in templates/, without .html
	part           string // the template of a part of the page; "" for the whole page
	Title          string
	Data           any
	status         int    // HTTP status; 0 means 200
	Redirect       string // a path of these pages; only Cookie and About are used besides
	About          string // what the notice after Redirect names: a person, or how many; "" for nothing
	External       string // the registered redirect URL of an app; only Cookie is used besides
	File           *File  // a download; only Cookie is used besides
	Cookie         *http.Cookie
	Bare           bool     // the page is embedded in another site, so it has no header
	Lead           string   // a sentence below the title
	Summary        string   // what search engines and messages with a link to the page show; "" for nothing
	Crumbs         []Cell   // links to the pages above this one
	State          Cell     // a badge beside the title
	FrameAncestors []string // origins that may embed the page
	Style          string   // path of the style sheet with a merchant's accent color; "" for none
	LivePath       string   // path of the event stream that keeps the page current
	Checks         bool     // the page has forms that are checked while they are filled in
	Sends          bool     // a script of the page sends its form
	keepsForm      bool     // the posted form is kept until the user has proven the second factor
	FormScheme     string   // a URL scheme to which forms may redirect, besides the pages' own origin
}

// File is a download, a text that browsers show if it has no name, or a part of pages whose URL changes with its
// content.
type File struct {
	Name, ContentType string
	Data              []byte
	Immutable         bool // part of pages, which browsers may cache forever
}

// Download returns the view of a file that the browser saves.
func Download(f document.File, err error) (View, error) {
	return View{File: &File{Name: f.Name, ContentType: f.ContentType, Data: f.Data}}, err
}

// Documents returns a writer of documents for the reader.
func (c *Request) Documents() *document.Writer {
	return &document.Writer{Reader: c.Reader, Sandbox: c.CanSimulate()}
}
