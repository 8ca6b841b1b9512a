-- +goose Up

-- External payers: whom a company bills, and who pays its checkout claims. Deleting one keeps its row and name.
CREATE TABLE payers (
    company_id TEXT   NOT NULL,
    payer_id   TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    email      TEXT   NOT NULL,
    status     TEXT   NOT NULL CHECK (status IN ('active', 'deleted')),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, payer_id)
);
