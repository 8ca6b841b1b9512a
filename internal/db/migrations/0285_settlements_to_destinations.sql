-- +goose Up

-- What is settled goes to the company's balance, and from there, by a withdrawal, to one of its destinations if the settings name one.
ALTER TABLE settlements ADD COLUMN withdrawal_id TEXT NOT NULL DEFAULT ''; -- '': it stays in the balance
ALTER TABLE settlements DROP COLUMN state;
ALTER TABLE settlements DROP COLUMN address;
ALTER TABLE settlements DROP COLUMN txid;
ALTER TABLE settlements DROP COLUMN version;
ALTER TABLE settlements DROP COLUMN updated_at;

-- An address that a program could enter is no destination: nothing goes there any more, and the schedule stops until somebody has
-- looked at it.
ALTER TABLE merchant_settings ADD COLUMN destination_id TEXT NOT NULL DEFAULT ''; -- '' leaves it in the balance
UPDATE merchant_settings SET schedule = 'manual', version = version + 1 WHERE payout_address <> '';
ALTER TABLE merchant_settings DROP COLUMN payout_address;

-- A refund that is above what leaves without two operators waits for them.
ALTER TABLE claim_refunds ADD COLUMN withheld BOOLEAN NOT NULL DEFAULT FALSE;
