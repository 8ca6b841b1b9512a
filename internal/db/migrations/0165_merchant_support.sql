-- +goose Up
ALTER TABLE merchant_settings ADD COLUMN support_email TEXT NOT NULL DEFAULT ''; -- whom payers may write to, as checkouts show it
