package identity

import (
	"math/bits"
	"strings"
)

// Scope is the public name of a permission.
type Scope = string

// The scopes of the API.
const (
	CompanyDetail                = "c_company_detail"
	CompanyWorkerList            = "c_company_worker_list"
	CompanyWorkerInvitationsList = "c_company_worker_invitations_list"
	CompanyWorkersInvite         = "c_company_workers_invite"
	CompanyWorkersPay            = "c_company_workers_pay"
	CompanyPropose               = "c_company_propose"
	// CompanyApprove permits approving payments on behalf of the member who granted it, with that member's second
	// factor.
	CompanyApprove = "c_company_approve"
	// CompanyMembers permits managing members on behalf of the member who granted it, with that member's second factor.
	CompanyMembers         = "c_company_members"
	UserCreate             = "u_user_create"
	UserUpdate             = "u_user_update"
	UserUpdateDoc          = "u_user_update_doc"
	UserPayerCreate        = "u_user_payer_create"
	UserPayerUpdate        = "u_user_payer_update"
	UserInvoiceCreate      = "u_user_invoice_create"
	UserInvoiceDelete      = "u_user_invoice_delete"
	UserDetail             = "u_user_detail"
	UserDocumentList       = "u_user_document_list"
	UserPayerDetail        = "u_user_payer_detail"
	UserPayerList          = "u_user_payer_list"
	UserBankDetails        = "u_user_bank_details"
	UserInvoiceDetail      = "u_user_invoice_detail"
	UserInvoiceList        = "u_user_invoice_list"
	UserDistributionDetail = "u_user_distribution_detail"
	UserDistributionList   = "u_user_distribution_list"
	UserDistributionCreate = "u_user_distribution_create"
	UserDistributionUpdate = "u_user_distribution_update"
	UserKYCInitiate        = "u_user_kyc_initiate"
	// PlatformCompanies permits creating companies and acting for them. Only API keys can have this scope.
	PlatformCompanies = "p_companies"
)

// scopes lists all scopes in the order of the API. The index of a scope is its bit in [Scopes].
var scopes = [...]Scope{
	CompanyDetail, CompanyWorkerList, CompanyWorkerInvitationsList, CompanyWorkersInvite, CompanyWorkersPay,
	CompanyPropose, CompanyApprove, CompanyMembers,
	UserCreate, UserUpdate, UserUpdateDoc, UserPayerCreate, UserPayerUpdate, UserInvoiceCreate, UserInvoiceDelete,
	UserDetail, UserDocumentList, UserPayerDetail, UserPayerList, UserBankDetails, UserInvoiceDetail, UserInvoiceList,
	UserDistributionDetail, UserDistributionList, UserDistributionCreate, UserDistributionUpdate, UserKYCInitiate,
	PlatformCompanies,
}

var scopeBits = func() map[Scope]Scopes {
	m := make(map[Scope]Scopes, len(scopes))
	for i, s := range scopes {
		m[s] = 1 << i
	}
	return m
}()

// Scopes is a set of scopes. The zero value is the empty set.
type Scopes uint32

// AllScopes returns the set of every scope.
func AllScopes() Scopes { return 1<<len(scopes) - 1 }

// GrantableScopes returns the scopes that users can grant to apps. Only API keys can have the other scopes.
func GrantableScopes() Scopes { return AllScopes() &^ NewScopes(PlatformCompanies) }

// NewScopes returns a set of scopes. It panics if a scope is unknown.
func NewScopes(ss ...Scope) Scopes {
	var set Scopes
	for _, s := range ss {
		bit, ok := scopeBits[s]
		if !ok {
			panic("identity: no such scope: " + s)
		}
		set |= bit
	}
	return set
}

// ParseScopes parses the names of scopes separated by whitespace. It returns false if a name is unknown.
func ParseScopes(text string) (set Scopes, ok bool) {
	for name := range strings.FieldsSeq(text) {
		bit, known := scopeBits[name]
		if !known {
			return 0, false
		}
		set |= bit
	}
	return set, true
}

// Has reports whether a scope is in the set. An unknown scope is not in any set.
func (s Scopes) Has(scope Scope) bool {
	bit, ok := scopeBits[scope]
	return ok && s&bit != 0
}

// Within reports whether every scope of s is in other.
func (s Scopes) Within(other Scopes) bool { return s&^other == 0 }

// List returns the names of the scopes in the order of the API.
func (s Scopes) List() []Scope {
	list := make([]Scope, 0, bits.OnesCount32(uint32(s)))
	for i, scope := range scopes {
		if s&(1<<i) != 0 {
			list = append(list, scope)
		}
	}
	return list
}

// String returns the names of the scopes in the form that [ParseScopes] accepts.
func (s Scopes) String() string {
	var b strings.Builder
	for _, scope := range s.List() {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(scope)
	}
	return b.String()
}
