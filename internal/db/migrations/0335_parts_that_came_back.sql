-- +goose Up
-- Of which payment of ours (S0000012P00003) a transfer is a part that came back; '' for all others.
ALTER TABLE transfers ADD COLUMN payment TEXT NOT NULL DEFAULT '';
CREATE INDEX transfers_of_payments ON transfers (payment) WHERE payment <> '';
