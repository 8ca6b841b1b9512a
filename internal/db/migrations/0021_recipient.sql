-- +goose Up

-- Everyone a company pays. A worker with a login stands here under the id of the user, so that one lookup
-- finds any payee; the copied name, email and country are refreshed when the user's profile changes.
-- The *_key columns are lower-cased for search, sort and comparison. Phone, address and birth date are sealed in details.
CREATE TABLE recipients (
    company_id      TEXT    NOT NULL,
    recipient_id    TEXT    NOT NULL,
    relationship_id TEXT    NOT NULL,
    user_id         TEXT    NOT NULL,
    recipient_type  TEXT    NOT NULL CHECK (recipient_type IN ('user', 'company')),
    role            TEXT    NOT NULL CHECK (role IN ('contractor', 'employee', 'vendor')),
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'active', 'inactive')),
    name            TEXT    NOT NULL,
    name_key        TEXT    NOT NULL,
    first_name      TEXT    NOT NULL,
    last_name       TEXT    NOT NULL,
    email           TEXT    NOT NULL,
    email_key       TEXT    NOT NULL,
    country         TEXT    NOT NULL,
    external_id     TEXT    NOT NULL,
    department      TEXT    NOT NULL,
    vendor_type     TEXT    NOT NULL,
    details         TEXT    NOT NULL,
    onboarded       BOOLEAN NOT NULL,
    version         BIGINT  NOT NULL,
    created_at      BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    PRIMARY KEY (company_id, recipient_id)
);
CREATE UNIQUE INDEX recipients_by_external_id ON recipients (company_id, external_id) WHERE external_id <> '';
CREATE INDEX recipients_by_created ON recipients (company_id, created_at, recipient_id);
CREATE INDEX recipients_by_name ON recipients (company_id, name_key, recipient_id);
CREATE INDEX recipients_by_email ON recipients (company_id, email_key, recipient_id);
-- The companies a person works for.
CREATE INDEX recipients_of_user ON recipients (user_id) WHERE user_id <> '';
