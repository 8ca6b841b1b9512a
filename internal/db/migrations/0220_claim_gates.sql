-- +goose Up

-- A row to wait for: who makes claims close to a limit of their company counts them one after the other.
CREATE TABLE claim_gates (
    company_id TEXT NOT NULL PRIMARY KEY
);
