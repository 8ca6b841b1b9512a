-- +goose Up
-- Where on account 1020 a transfer is booked. What was booked before stands under the number of its account: ''.
ALTER TABLE transfers ADD COLUMN place TEXT NOT NULL DEFAULT '';

-- The bank's statements (camt.053) of the house's accounts, as reconciliation compares them with account 1020. A statement that is
-- read again takes its own place.
CREATE TABLE bank_statements (
    number       TEXT    NOT NULL, -- of the account
    currency     TEXT    NOT NULL,
    statement_id TEXT    NOT NULL, -- the bank's name of it
    sequence     BIGINT  NOT NULL, -- the bank's count, 0 without one
    balanced     BOOLEAN NOT NULL, -- the bank says with what it opens and closes
    opening      BIGINT  NOT NULL,
    closing      BIGINT  NOT NULL,
    opens_on     TEXT    NOT NULL, -- 2026-03-02
    closes_on    TEXT    NOT NULL,
    made_at      BIGINT  NOT NULL, -- by the bank
    taken_at     BIGINT  NOT NULL,
    PRIMARY KEY (number, currency, statement_id)
);

-- What is booked in them: a booking of several payments has a row for each thing of ours that it is about.
CREATE TABLE bank_entries (
    number       TEXT   NOT NULL,
    currency     TEXT   NOT NULL,
    statement_id TEXT   NOT NULL,
    position     BIGINT NOT NULL,
    subject      TEXT   NOT NULL, -- S0000012, trf_…; '' where nobody knows
    amount       BIGINT NOT NULL, -- negative where it left the account
    name         TEXT   NOT NULL, -- the bank's, for a person to find it by
    PRIMARY KEY (number, currency, statement_id, position)
);
