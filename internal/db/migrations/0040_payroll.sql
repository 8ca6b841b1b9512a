-- +goose Up
CREATE TABLE payrolls (
    company_id       TEXT   NOT NULL,
    payroll_id       TEXT   NOT NULL,
    external_id      TEXT   NOT NULL,
    state            TEXT   NOT NULL,
    held_from        TEXT   NOT NULL, -- the state that a hold interrupts
    hold_reason      TEXT   NOT NULL,
    funding_state    TEXT   NOT NULL,
    version          BIGINT NOT NULL,
    currency         TEXT   NOT NULL,
    funding_method   TEXT   NOT NULL,
    funding_currency TEXT   NOT NULL,
    payees           BIGINT NOT NULL,
    volume           BIGINT NOT NULL,
    fees             BIGINT NOT NULL,
    total            BIGINT NOT NULL CHECK (total = volume + fees),
    escrow           BIGINT NOT NULL CHECK (escrow >= 0),
    shortfall        BIGINT NOT NULL CHECK (shortfall >= 0),
    rate             TEXT   NOT NULL, -- '' without a single one
    address          TEXT   NOT NULL,
    network          TEXT   NOT NULL,
    tolerance_bps    BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    PRIMARY KEY (company_id, payroll_id)
);
CREATE UNIQUE INDEX payrolls_external ON payrolls (company_id, external_id) WHERE external_id <> '';
CREATE INDEX payrolls_by_state ON payrolls (company_id, state, payroll_id);

CREATE TABLE payments (
    company_id          TEXT    NOT NULL,
    payroll_id          TEXT    NOT NULL,
    payment_id          TEXT    NOT NULL,
    position            BIGINT  NOT NULL, -- index in to_pay
    payee_id            TEXT    NOT NULL,
    user_id             TEXT    NOT NULL,
    state               TEXT    NOT NULL,
    version             BIGINT  NOT NULL,
    amount              BIGINT  NOT NULL CHECK (amount > 0),
    fee                 BIGINT  NOT NULL CHECK (fee >= 0),
    country             TEXT    NOT NULL,
    premium             BOOLEAN NOT NULL,
    invoice_id          TEXT    NOT NULL,
    description         TEXT    NOT NULL,
    category            TEXT    NOT NULL,
    external_payment_id TEXT    NOT NULL,
    received            BOOLEAN NOT NULL,
    released            BOOLEAN NOT NULL,
    fulfilled           BOOLEAN NOT NULL,
    divided             BOOLEAN NOT NULL, -- a release has taken it out of escrow
    reason              TEXT    NOT NULL,
    PRIMARY KEY (company_id, payroll_id, payment_id)
);

-- What was booked for each deposit of a payroll, so that it can be booked once and undone exactly.
CREATE TABLE payroll_receipts (
    company_id TEXT    NOT NULL,
    payroll_id TEXT    NOT NULL,
    deposit_id TEXT    NOT NULL,
    price_id   TEXT    NOT NULL, -- the quote, or the deposit itself when applied late
    rate       TEXT    NOT NULL, -- '' while in suspense
    live       BOOLEAN NOT NULL,
    late       BOOLEAN NOT NULL,
    turn       BIGINT  NOT NULL, -- bookings and reversals so far
    amount     BIGINT  NOT NULL CHECK (amount > 0),
    escrow     BIGINT  NOT NULL CHECK (escrow >= 0),
    surplus    BIGINT  NOT NULL CHECK (surplus >= 0),
    suspense   BIGINT  NOT NULL CHECK (suspense >= 0),
    repaid     BIGINT  NOT NULL CHECK (repaid >= 0),
    owed       BIGINT  NOT NULL CHECK (owed >= 0),
    PRIMARY KEY (company_id, payroll_id, deposit_id)
);
