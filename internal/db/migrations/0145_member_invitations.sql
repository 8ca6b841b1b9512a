-- +goose Up

-- Invitations to act for a company. Found by the digest of the token in the link; the row goes when it is answered or withdrawn.
CREATE TABLE member_invitations (
    company_id    TEXT   NOT NULL,
    invitation_id TEXT   NOT NULL,
    digest        TEXT   NOT NULL,
    email         TEXT   NOT NULL,
    email_key     TEXT   NOT NULL,
    role          TEXT   NOT NULL,
    invited_by    TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, invitation_id)
);
CREATE UNIQUE INDEX member_invitations_by_digest ON member_invitations (digest);
