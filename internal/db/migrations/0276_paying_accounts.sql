-- +goose Up
-- The accounts that pay on networks of accounts: what others do with them is looked for.
CREATE INDEX chain_addresses_paying ON chain_addresses (chain) WHERE object_id = 'fx_account';
