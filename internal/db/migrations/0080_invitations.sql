-- +goose Up

-- A company's wish that a person become its worker. The link in the mail carries a token of which only the digest is
-- kept; sending again replaces it. user_id is '' until the person accepts. reason says who ended a revoked one.
CREATE TABLE invitations (
    company_id    TEXT   NOT NULL,
    invitation_id TEXT   NOT NULL,
    email         TEXT   NOT NULL,
    email_key     TEXT   NOT NULL,
    role          TEXT   NOT NULL CHECK (role IN ('contractor', 'employee')),
    state         TEXT   NOT NULL CHECK (state IN ('sent', 'accepted', 'expired', 'revoked')),
    reason        TEXT   NOT NULL,
    token_digest  TEXT   NOT NULL,
    resend_count  BIGINT NOT NULL CHECK (resend_count BETWEEN 0 AND 3),
    user_id       TEXT   NOT NULL,
    version       BIGINT NOT NULL,
    sent_at       BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, invitation_id)
);
-- One address has one open invitation of a company.
CREATE UNIQUE INDEX invitations_open ON invitations (company_id, email_key) WHERE state = 'sent';
CREATE INDEX invitations_by_email ON invitations (company_id, email_key, created_at);
CREATE INDEX invitations_by_created ON invitations (company_id, created_at, invitation_id);
-- The person who follows the link knows no company.
CREATE UNIQUE INDEX invitations_by_token ON invitations (token_digest);
