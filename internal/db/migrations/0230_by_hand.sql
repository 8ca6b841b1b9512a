-- +goose Up

-- The operator says which payer a transfer is from, by the payer's id alone.
CREATE INDEX payers_by_id ON payers (payer_id);

-- What something is to be done with: whom a transfer is to be credited to.
ALTER TABLE operator_requests ADD COLUMN target TEXT NOT NULL DEFAULT '';
