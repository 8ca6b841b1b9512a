-- +goose Up

-- A payer belongs to whoever bills it: a user (usr_…) or a company (com_…). Each row is one tenant's, as before; only the
-- tenant may now be a person. details is sealed: the address, occupation and amount that the owner noted. being_paid
-- counts the payer's invoices that are in a live pay run; while it is not 0 the payer cannot be deleted.
ALTER TABLE payers RENAME COLUMN company_id TO owner_id;
ALTER TABLE payers ADD COLUMN company_type TEXT NOT NULL DEFAULT 'client' CHECK (company_type IN ('employer', 'client'));
ALTER TABLE payers ADD COLUMN currency TEXT NOT NULL DEFAULT 'USD' CHECK (currency IN ('EUR', 'USD'));
ALTER TABLE payers ADD COLUMN website TEXT NOT NULL DEFAULT '';
ALTER TABLE payers ADD COLUMN details TEXT NOT NULL DEFAULT '';
ALTER TABLE payers ADD COLUMN being_paid BIGINT NOT NULL DEFAULT 0 CHECK (being_paid >= 0);
ALTER TABLE payers ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE payers ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
