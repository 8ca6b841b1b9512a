package ui

const CompanyPath = "/company/verification"
