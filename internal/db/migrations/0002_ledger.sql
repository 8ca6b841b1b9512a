-- +goose Up
-- Balances of the accounts that must never be overdrawn. The CHECK is the last of several guards; its upper
-- end keeps SQLite from turning an overflow into a float.
CREATE TABLE ledger_balances (
    company_id TEXT NOT NULL,
    code       TEXT NOT NULL,
    dim        TEXT NOT NULL,
    asset      TEXT NOT NULL,
    balance    BIGINT NOT NULL CONSTRAINT ledger_no_overdraft CHECK (balance >= 0 AND balance <= 9223372036854775807),
    PRIMARY KEY (company_id, code, dim, asset)
);

CREATE TABLE ledger_journals (
    company_id  TEXT NOT NULL,
    journal_id  TEXT NOT NULL,
    source_type TEXT NOT NULL,
    source_id   TEXT NOT NULL,
    purpose     TEXT NOT NULL,
    booked_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, journal_id)
);
CREATE UNIQUE INDEX ledger_journals_source ON ledger_journals (company_id, source_type, source_id, purpose);

-- amount: debit positive, credit negative, in minor units.
CREATE TABLE ledger_lines (
    company_id TEXT NOT NULL,
    journal_id TEXT NOT NULL,
    line       BIGINT NOT NULL,
    code       TEXT NOT NULL,
    dim        TEXT NOT NULL,
    asset      TEXT NOT NULL,
    amount     BIGINT NOT NULL CHECK (amount > -9223372036854775807 AND amount <= 9223372036854775807),
    PRIMARY KEY (company_id, journal_id, line)
);
CREATE INDEX ledger_lines_account ON ledger_lines (company_id, code, dim, asset);
