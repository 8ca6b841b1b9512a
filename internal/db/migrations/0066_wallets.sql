-- +goose Up

-- Wallets that a company asked for: one name per currency for what the books say it has. The money is in the ledger and
-- nowhere else. A rejected request stays as it was answered, and another may be made.
CREATE TABLE wallets (
    company_id TEXT   NOT NULL,
    wallet_id  TEXT   NOT NULL,
    currency   TEXT   NOT NULL,
    status     TEXT   NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'rejected')),
    reason     TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, wallet_id)
);
CREATE UNIQUE INDEX wallets_by_currency ON wallets (company_id, currency) WHERE status <> 'rejected';
