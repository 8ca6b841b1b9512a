-- +goose Up

-- Codes on their way from the consent to the exchange. Whoever shows one knows nothing but the code.
CREATE TABLE authorization_codes (
    digest     TEXT   NOT NULL,
    company_id TEXT   NOT NULL, -- for which the user granted, '' for themselves alone
    app_id     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    scopes     TEXT   NOT NULL,
    challenge  TEXT   NOT NULL, -- of PKCE, '' without
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    token_id   TEXT   NOT NULL, -- what the first exchange gave, so that a second one can take it back
    PRIMARY KEY (digest)
);
CREATE INDEX access_tokens_user ON access_tokens (user_id, app_id);
