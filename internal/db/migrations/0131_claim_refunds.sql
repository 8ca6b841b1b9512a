-- +goose Up

-- What a payer gets back of a claim. The link that offers it works once; only its digest is kept.
CREATE TABLE claim_refunds (
    company_id   TEXT   NOT NULL,
    claim_id     TEXT   NOT NULL,
    refund_id    TEXT   NOT NULL,
    state        TEXT   NOT NULL CHECK (state IN ('offered', 'accepted', 'paid', 'withdrawn')),
    asset        TEXT   NOT NULL,
    amount       BIGINT NOT NULL CHECK (amount > 0),
    fee          BIGINT NOT NULL CHECK (fee >= 0 AND fee < amount), -- of it, what sending costs
    token_digest TEXT   NOT NULL,
    address      TEXT   NOT NULL, -- '' before the payer named one
    output_id    TEXT   NOT NULL,
    txid         TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, claim_id, refund_id)
);
-- One offer at a time.
CREATE UNIQUE INDEX claim_refunds_offered ON claim_refunds (company_id, claim_id) WHERE state = 'offered';

-- What a merchant took out of what its claims brought.
CREATE TABLE settlements (
    company_id    TEXT   NOT NULL,
    settlement_id TEXT   NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('processing', 'completed')),
    asset         TEXT   NOT NULL,
    amount        BIGINT NOT NULL CHECK (amount > 0),
    address       TEXT   NOT NULL, -- '' for the company's wallet
    output_id     TEXT   NOT NULL,
    txid          TEXT   NOT NULL,
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, settlement_id)
);

-- When the schedule last paid a merchant out; 0: never.
ALTER TABLE merchant_settings ADD COLUMN settled_at BIGINT NOT NULL DEFAULT 0;
