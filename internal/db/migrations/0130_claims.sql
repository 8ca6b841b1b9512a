-- +goose Up

-- How many confirmations a payment under a quote needs; 0 leaves that to the value at stake.
ALTER TABLE quotes ADD COLUMN confirmations BIGINT NOT NULL DEFAULT 0;

-- What a merchant decided about the payments for its claims. A company without a row has the defaults.
CREATE TABLE merchant_settings (
    company_id     TEXT   NOT NULL,
    tolerance_bps  BIGINT NOT NULL CHECK (tolerance_bps BETWEEN 0 AND 500),
    confirmations  BIGINT NOT NULL CHECK (confirmations IN (0, 1, 2, 6)),
    late_policy    TEXT   NOT NULL CHECK (late_policy IN ('manual', 'requote', 'refund')),
    grace_seconds  BIGINT NOT NULL CHECK (grace_seconds BETWEEN 0 AND 120),
    settle_in      TEXT   NOT NULL, -- '' is each claim's own currency
    origins        TEXT   NOT NULL, -- JSON: where the checkout may be embedded, and return to
    schedule       TEXT   NOT NULL CHECK (schedule IN ('manual', 'daily', 'weekly')),
    payout_address TEXT   NOT NULL, -- '' settles to the company's wallet
    version        BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- What a customer owes a merchant. The columns from wallet to owed_payer say what is booked in the ledger for the claim;
-- each step books the difference to what should be.
CREATE TABLE claims (
    company_id    TEXT    NOT NULL,
    claim_id      TEXT    NOT NULL,
    payer_id      TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    return_url    TEXT    NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('awaiting_payment', 'partially_paid', 'confirming', 'paid', 'expired',
        'underpaid', 'paid_late', 'invalid', 'refunded', 'cancelled')),
    exception     TEXT    NOT NULL CHECK (exception IN ('none', 'overpaid', 'late', 'within_tolerance')),
    reverted      BOOLEAN NOT NULL, -- was paid until the chain took the payment back
    version       BIGINT  NOT NULL,
    denom_asset   TEXT    NOT NULL,
    denom         BIGINT  NOT NULL CHECK (denom > 0),
    fee           BIGINT  NOT NULL CHECK (fee >= 0 AND fee <= denom),
    fee_bps       BIGINT  NOT NULL,
    funding_asset TEXT    NOT NULL,
    settle_asset  TEXT    NOT NULL,
    address       TEXT    NOT NULL,
    network       TEXT    NOT NULL,
    tolerance_bps BIGINT  NOT NULL,
    confirmations BIGINT  NOT NULL,
    late_policy   TEXT    NOT NULL,
    grace_seconds BIGINT  NOT NULL,
    tx_hash       TEXT    NOT NULL, -- the transaction that completed the payment, or the newest
    seen          BIGINT  NOT NULL, -- funding units on the chain, confirmed or not
    wallet        BIGINT  NOT NULL CHECK (wallet >= 0),
    suspense      BIGINT  NOT NULL CHECK (suspense >= 0),
    excess        BIGINT  NOT NULL CHECK (excess >= 0),
    shortfall     BIGINT  NOT NULL CHECK (shortfall >= 0),
    exchanged     BIGINT  NOT NULL CHECK (exchanged >= 0),
    merchant      BIGINT  NOT NULL CHECK (merchant >= 0),
    revenue       BIGINT  NOT NULL CHECK (revenue >= 0),
    owed_merchant BIGINT  NOT NULL CHECK (owed_merchant >= 0),
    owed_payer    BIGINT  NOT NULL CHECK (owed_payer >= 0),
    refunded      BIGINT  NOT NULL CHECK (refunded >= 0), -- of excess: paid back and confirmed
    refunding     BOOLEAN NOT NULL, -- what it received goes back, whatever comes
    cancelled_at  BIGINT  NOT NULL, -- 0: never
    invalid_at    BIGINT  NOT NULL, -- 0: never
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    PRIMARY KEY (company_id, claim_id)
);
CREATE INDEX claims_by_state ON claims (company_id, state, claim_id);
CREATE INDEX claims_by_time ON claims (company_id, created_at);
-- The checkout page knows nothing but the id.
CREATE UNIQUE INDEX claims_by_id ON claims (claim_id);

-- Money that came too late and was taken all the same, at the rate of that moment.
CREATE TABLE claim_applied (
    company_id TEXT   NOT NULL,
    claim_id   TEXT   NOT NULL,
    deposit_id TEXT   NOT NULL,
    rate       TEXT   NOT NULL, -- '' where nothing is exchanged
    applied_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, claim_id, deposit_id)
);
