-- +goose Up
-- What a provider of funding accounts took back again: a receipt of its own, whose amount went the other way.
ALTER TABLE funding_receipts ADD COLUMN reversed BOOLEAN NOT NULL DEFAULT FALSE;
