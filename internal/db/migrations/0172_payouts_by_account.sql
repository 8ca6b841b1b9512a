-- +goose Up
-- Payouts on networks of accounts. Each is a batch of its own, with the nonce of the account that pays it; so are the
-- transactions that bring deposits to the paying account, and the gas that those need.

ALTER TABLE payout_batches ADD COLUMN asset TEXT NOT NULL DEFAULT 'BTC';
ALTER TABLE payout_batches ADD COLUMN purpose TEXT NOT NULL DEFAULT 'payout';
ALTER TABLE payout_batches ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE payout_batches ADD COLUMN nonce BIGINT NOT NULL DEFAULT 0;
-- One transaction for each nonce, whatever goes wrong elsewhere.
CREATE UNIQUE INDEX payout_batches_nonce ON payout_batches (chain, account, nonce) WHERE account <> '';

CREATE TABLE payout_nonces (
    chain   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    next    BIGINT NOT NULL,
    PRIMARY KEY (chain, account)
);
