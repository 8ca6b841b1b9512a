-- +goose Up

-- Credits on the operator's bank accounts, each once. owner_id is whose balance has it, '' while it is in suspense; debtor, account
-- and lines are what the bank says of it, for whoever has to find out whose it is. seen are the kinds of messages that told of it.
CREATE TABLE transfers (
    transfer_id    TEXT   NOT NULL PRIMARY KEY,
    bank_account   TEXT   NOT NULL, -- the operator's
    number         TEXT   NOT NULL, -- on which it was paid, where the bank says so
    currency       TEXT   NOT NULL,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    booked_on      TEXT   NOT NULL, -- 2026-01-31
    debtor         TEXT   NOT NULL,
    debtor_account TEXT   NOT NULL,
    lines          TEXT   NOT NULL, -- JSON: the payer's words
    likeness       TEXT   NOT NULL, -- a digest of all of it
    seen           TEXT   NOT NULL,
    state          TEXT   NOT NULL CHECK (state IN ('suspense', 'credited', 'returned')),
    reason         TEXT   NOT NULL,
    owner_id       TEXT   NOT NULL,
    payer_id       TEXT   NOT NULL,
    invoice_id     TEXT   NOT NULL,
    invoice_part   BIGINT NOT NULL, -- of the amount, counted as paid on the invoice
    payroll_id     TEXT   NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL
);
CREATE INDEX transfers_like ON transfers (bank_account, likeness);
CREATE INDEX transfers_in_suspense ON transfers (created_at) WHERE state = 'suspense';

-- The bank's own names of a credit. One of them again is the same credit.
CREATE TABLE transfer_names (
    bank_account TEXT NOT NULL,
    name         TEXT NOT NULL,
    transfer_id  TEXT NOT NULL,
    PRIMARY KEY (bank_account, name)
);

-- A payer names a pay run by its id, whoever's it is.
CREATE INDEX payrolls_by_id ON payrolls (payroll_id);
