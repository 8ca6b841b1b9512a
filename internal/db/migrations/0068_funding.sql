-- +goose Up

-- Virtual bank accounts. One belongs to a user or a company, as payers do; company_id is the company that hears of it.
-- details are sealed: the numbers that a payer transfers to. number_key is a digest of them, by which a transfer finds its
-- account. provider_ref is the provider's own name of the account, cursor how far its receipts were read.
CREATE TABLE funding_accounts (
    owner_id      TEXT   NOT NULL,
    account_id    TEXT   NOT NULL,
    company_id    TEXT   NOT NULL,
    currency      TEXT   NOT NULL,
    provider      TEXT   NOT NULL,
    status        TEXT   NOT NULL CHECK (status IN ('requested', 'terms_pending', 'pending', 'active', 'suspended', 'closed')),
    reason        TEXT   NOT NULL,
    details       TEXT   NOT NULL,
    number_key    TEXT   NOT NULL,
    provider_ref  TEXT   NOT NULL,
    cursor        TEXT   NOT NULL,
    terms_version TEXT   NOT NULL, -- '' until they are accepted
    terms_at      BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (owner_id, account_id)
);
CREATE UNIQUE INDEX funding_accounts_by_currency ON funding_accounts (owner_id, currency) WHERE status <> 'closed';
CREATE UNIQUE INDEX funding_accounts_by_id ON funding_accounts (account_id);
CREATE UNIQUE INDEX funding_accounts_by_number ON funding_accounts (number_key) WHERE number_key <> '';

-- What came in, once for each reference of the bank.
CREATE TABLE funding_receipts (
    owner_id    TEXT   NOT NULL,
    account_id  TEXT   NOT NULL,
    reference   TEXT   NOT NULL,
    receipt_id  TEXT   NOT NULL,
    currency    TEXT   NOT NULL,
    amount      BIGINT NOT NULL CHECK (amount > 0),
    received_at BIGINT NOT NULL,
    PRIMARY KEY (owner_id, account_id, reference)
);
