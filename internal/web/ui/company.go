package ui

// CompanyPath is the page of a company's own verification.
const CompanyPath = "/company/verification"
