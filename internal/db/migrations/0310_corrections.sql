-- +goose Up

-- What a bank asked to be put right in a destination before its next payment, and for whose payment: JSON, with the data sealed.
ALTER TABLE distributions ADD COLUMN correction TEXT NOT NULL DEFAULT '';
ALTER TABLE distributions ADD COLUMN correction_for TEXT NOT NULL DEFAULT '';
CREATE INDEX distributions_corrections ON distributions (correction_for, owner_id) WHERE correction_for <> '';
