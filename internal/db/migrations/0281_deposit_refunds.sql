-- +goose Up

-- Where an operator has a deposit sent back to that nobody expected, and by which payout; '' for none.
ALTER TABLE deposits ADD COLUMN refund_to TEXT NOT NULL DEFAULT '';
ALTER TABLE deposits ADD COLUMN refund_id TEXT NOT NULL DEFAULT '';
