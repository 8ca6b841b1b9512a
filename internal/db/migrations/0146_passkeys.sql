-- +goose Up

-- Passkeys: a public key each, whose private half never leaves the person's device. data is the credential as the library that
-- checks it writes it; credential_id is by which a device names it.
CREATE TABLE passkeys (
    user_id       TEXT   NOT NULL,
    passkey_id    TEXT   NOT NULL,
    credential_id TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    data          TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    last_used_at  BIGINT NOT NULL, -- 0 for never
    PRIMARY KEY (user_id, passkey_id)
);
CREATE UNIQUE INDEX passkeys_by_credential ON passkeys (credential_id);

-- What a device is asked to sign, found by its digest, and taken once. user_id is '' where anybody may sign in.
CREATE TABLE passkey_challenges (
    digest     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    data       TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX passkey_challenges_by_end ON passkey_challenges (expires_at);
