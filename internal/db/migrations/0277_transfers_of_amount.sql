-- +goose Up
-- A credit that the bank does not name is looked for by its amount, among those of the days around it.
CREATE INDEX transfers_of_amount ON transfers (bank_account, amount, booked_on);
