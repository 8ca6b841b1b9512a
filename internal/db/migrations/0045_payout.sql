-- +goose Up
CREATE TABLE outputs (
    company_id      TEXT    NOT NULL,
    output_id       TEXT    NOT NULL,
    payroll_id      TEXT    NOT NULL,
    payment_id      TEXT    NOT NULL,
    distribution_id TEXT    NOT NULL,
    rail            TEXT    NOT NULL,
    asset           TEXT    NOT NULL,
    amount          BIGINT  NOT NULL CHECK (amount > 0),
    input_asset     TEXT    NOT NULL,
    input_amount    BIGINT  NOT NULL,
    address         TEXT    NOT NULL,
    destination     TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    held            BOOLEAN NOT NULL,
    batch_id        TEXT    NOT NULL,
    txid            TEXT    NOT NULL,
    vout            BIGINT  NOT NULL,
    version         BIGINT  NOT NULL,
    queued_at       BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    PRIMARY KEY (company_id, output_id)
);
CREATE INDEX outputs_of_payment ON outputs (company_id, payroll_id, payment_id);
CREATE INDEX outputs_queue ON outputs (company_id, rail, queued_at, output_id) WHERE state = 'queued';
CREATE INDEX outputs_of_batch ON outputs (company_id, batch_id) WHERE batch_id <> '';

-- One row per company that was ever paid from: when its queue is looked at again while it is held.
CREATE TABLE payout_queues (
    company_id TEXT   NOT NULL PRIMARY KEY,
    held       TEXT   NOT NULL, -- '' or why the queue waits
    held_since BIGINT NOT NULL,
    wake_at    BIGINT NOT NULL, -- 0: no look is scheduled
    version    BIGINT NOT NULL
);

CREATE TABLE payout_batches (
    company_id TEXT   NOT NULL,
    batch_id   TEXT   NOT NULL,
    chain      TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    txid       TEXT   NOT NULL,
    value      BIGINT NOT NULL,
    fee        BIGINT NOT NULL,
    inputs     TEXT   NOT NULL, -- JSON: the coins that every transaction of the batch spends
    change     TEXT   NOT NULL, -- address
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    sent_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, batch_id)
);

-- Written before the first broadcast; never updated except for state and attempts.
CREATE TABLE payout_txs (
    company_id TEXT   NOT NULL,
    txid       TEXT   NOT NULL,
    batch_id   TEXT   NOT NULL,
    replaces   TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    raw        TEXT   NOT NULL, -- hex
    fee        BIGINT NOT NULL,
    vsize      BIGINT NOT NULL,
    package    BIGINT NOT NULL, -- vsize with all unconfirmed ancestors at signing
    ancestors  BIGINT NOT NULL, -- how many those are, itself included
    attempts   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, txid)
);
CREATE INDEX payout_txs_of_batch ON payout_txs (company_id, batch_id);

-- Outputs by bank wait here for the next file.
CREATE TABLE payout_bank_queue (
    company_id TEXT   NOT NULL,
    output_id  TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    file_id    TEXT   NOT NULL, -- '' until a file took it
    queued_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, output_id)
);
CREATE INDEX payout_bank_queue_open ON payout_bank_queue (company_id, asset, queued_at) WHERE file_id = '';
