-- +goose Up

-- When a session last showed a second factor, 0 for never; and whether it still waits for one after the password, and so stands
-- for nobody yet.
ALTER TABLE sessions ADD COLUMN factor_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN awaits_factor BOOLEAN NOT NULL DEFAULT FALSE;

-- A person's authenticator: the sealed secret, and the step of the last code that was taken, so that none is taken twice.
-- confirmed_at is 0 until its first code was right.
CREATE TABLE second_factors (
    user_id      TEXT   NOT NULL,
    secret       TEXT   NOT NULL,
    last_step    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    PRIMARY KEY (user_id)
);

-- Codes for somebody whose authenticator is lost. Each works once; used_at is 0 until then.
CREATE TABLE recovery_codes (
    user_id TEXT   NOT NULL,
    digest  TEXT   NOT NULL,
    used_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, digest)
);
