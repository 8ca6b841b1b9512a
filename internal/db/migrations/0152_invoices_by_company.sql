-- +goose Up
-- A company looks at the invoices that its people have written for it, the newest first.
CREATE INDEX invoices_by_company ON invoices (company_id, created_at, invoice_id) WHERE company_id <> '';
