-- +goose Up

-- Where a wallet is paid in coins: an address of its own, for ever. '' for money that no chain carries.
ALTER TABLE wallets ADD COLUMN address TEXT NOT NULL DEFAULT '';

-- Whose balance a deposit is credited to, '' where an object books it or nobody has decided.
ALTER TABLE deposits ADD COLUMN owner_id TEXT NOT NULL DEFAULT '';
CREATE INDEX deposits_owner ON deposits (company_id, owner_id, first_seen) WHERE owner_id <> '';
-- A wallet has any number of deposits, and few that wait for their confirmations.
CREATE INDEX deposits_waiting ON deposits (company_id, object_id) WHERE state IN ('seen', 'reverted');
