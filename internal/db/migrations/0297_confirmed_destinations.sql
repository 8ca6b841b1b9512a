-- +goose Up

-- When, and which, member of the company confirmed that the payee of a payment that waited for it changed their destination themselves.
ALTER TABLE payments ADD COLUMN confirmed_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE payments ADD COLUMN confirmed_by TEXT NOT NULL DEFAULT '';
