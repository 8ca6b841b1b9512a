-- +goose Up

-- Whose addresses the indexes of a wallet are: the first address of its key, or 'several' once another key reserved some. A watcher that
-- knows its key's addresses by heart relies on it. Empty until the first reservation that says it.
ALTER TABLE chain_pools ADD COLUMN keys TEXT NOT NULL DEFAULT '';
