package ui

import "strings"

// CompanyPath is the path of the page on which a company is verified.
const CompanyPath = "/company/verification"

// section is an entry of a menu.
type section struct {
	Label, Path string
	Here        bool
}

// sections lists the company pages in the menu.
var sections = []struct{ key, path string }{
	{"overview.title", "/overview"}, {"payrolls.title", "/payrolls"}, {"recipients.title", "/recipients"},
	{"invoices.title", "/invoices"}, {"wallets.title", "/wallets"}, {"kyb.title", CompanyPath},
}

// Sections returns the menu of the company pages, empty for users who do not act for a company.
func (s PageData) Sections() (all []section) {
	if s.request.Session == nil || s.request.Session.Company.ID == "" {
		return nil
	}
	for _, it := range sections {
		at := s.request.HTTP.URL.Path
		all = append(all, section{s.T(it.key), s.URL(it.path), at == it.path || strings.HasPrefix(at, it.path+"/")})
	}
	return all
}

// staffMenu lists the sections of the staff pages.
var staffMenu = []struct{ key, path string }{
	{"operations.title", StaffPath}, {"position.title", StaffPath + "/position"},
	{"reconciliation.title", StaffPath + "/reconciliation"}, {"operations.jobs", StaffJobsPath},
	{"operations.acts", StaffPath + "/acts"},
}

// Operations returns the menu of the staff pages, empty for others.
func (s PageData) Operations() (all []section) {
	if s.request.Staff == nil {
		return nil
	}
	for _, it := range staffMenu {
		all = append(all, section{s.T(it.key), s.URL(it.path), s.request.HTTP.URL.Path == it.path})
	}
	return all
}
