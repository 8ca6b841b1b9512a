-- +goose Up
-- Networks that know accounts and several assets: which asset an output is of (nothing for Bitcoin), what a transaction of ours
-- cost and whether it failed, and how fast the blocks of a chain come.

ALTER TABLE chain_outputs ADD COLUMN asset TEXT NOT NULL DEFAULT '';
ALTER TABLE chain_txs ADD COLUMN fee BIGINT NOT NULL DEFAULT 0;
ALTER TABLE chain_txs ADD COLUMN failed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE chain_cursors ADD COLUMN pace BIGINT NOT NULL DEFAULT 1;
