-- +goose Up

-- Where a company takes its own money to: an address or a bank account of its own, as it was checked and sealed. It serves from
-- ready_at on. One that was removed stays, for the withdrawals that went there.
CREATE TABLE company_destinations (
    company_id     TEXT   NOT NULL,
    destination_id TEXT   NOT NULL,
    asset          TEXT   NOT NULL,
    label          TEXT   NOT NULL,
    snapshot       TEXT   NOT NULL, -- JSON
    status         TEXT   NOT NULL CHECK (status IN ('active', 'removed')),
    created_by     TEXT   NOT NULL,
    ready_at       BIGINT NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id, destination_id)
);

-- What a company takes out of its balance. created_by is the member who asked for it, '' for a program.
CREATE TABLE withdrawals (
    company_id     TEXT   NOT NULL,
    withdrawal_id  TEXT   NOT NULL,
    destination_id TEXT   NOT NULL,
    asset          TEXT   NOT NULL,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    status         TEXT   NOT NULL CHECK (status IN ('pending', 'awaiting_approval', 'on_hold', 'processing', 'completed',
        'returned', 'failed', 'declined', 'cancelled')),
    reason         TEXT   NOT NULL,
    output_id      TEXT   NOT NULL,
    tx_hash        TEXT   NOT NULL,
    external_id    TEXT   NOT NULL,
    request_key    TEXT   NOT NULL,
    created_by     TEXT   NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id, withdrawal_id)
);
CREATE INDEX withdrawals_by_time ON withdrawals (company_id, created_at, withdrawal_id);
CREATE UNIQUE INDEX withdrawals_by_key ON withdrawals (company_id, request_key) WHERE request_key <> '';
CREATE UNIQUE INDEX withdrawals_by_external_id ON withdrawals (company_id, external_id) WHERE external_id <> '';

-- Members who approved that a withdrawal leaves.
CREATE TABLE withdrawal_approvals (
    company_id    TEXT   NOT NULL,
    withdrawal_id TEXT   NOT NULL,
    user_id       TEXT   NOT NULL,
    at            BIGINT NOT NULL,
    PRIMARY KEY (company_id, withdrawal_id, user_id)
);
