-- +goose Up
-- How many mails an address got, or a company had sent, since a day began for it.
CREATE TABLE mail_counts (
    counter  TEXT   PRIMARY KEY, -- a digest of what is counted
    since_at BIGINT NOT NULL,
    mails    BIGINT NOT NULL
);
CREATE INDEX mail_counts_by_age ON mail_counts (since_at);
