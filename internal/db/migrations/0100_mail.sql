-- +goose Up

-- A mail to a person. data is what its text is made of, and is emptied when the mail has left, because it may hold the
-- token of a link. Without a mail server (sandbox) the finished text is kept in subject, body_text and body_html to be read.
-- company_id is '' where a person is written to on nobody's behalf.
CREATE TABLE mails (
    company_id TEXT   NOT NULL,
    mail_id    TEXT   NOT NULL,
    template   TEXT   NOT NULL,
    mail_key   TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    language   TEXT   NOT NULL,
    data       TEXT   NOT NULL,
    state      TEXT   NOT NULL CHECK (state IN ('queued', 'sent', 'kept', 'refused')),
    subject    TEXT   NOT NULL,
    body_text  TEXT   NOT NULL,
    body_html  TEXT   NOT NULL,
    reason     TEXT   NOT NULL, -- why the server refused it
    created_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL, -- 0 while queued
    PRIMARY KEY (company_id, mail_id)
);
-- One mail per company, template and key, however often it is asked for.
CREATE UNIQUE INDEX mails_once ON mails (company_id, template, mail_key);
CREATE INDEX mails_by_created ON mails (company_id, created_at, mail_id);
