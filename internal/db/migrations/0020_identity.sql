-- +goose Up

-- A business account. Its row is the contract: how it funds, what it is charged.
CREATE TABLE companies (
    company_id     TEXT   NOT NULL,
    name           TEXT   NOT NULL,
    email          TEXT   NOT NULL,
    website        TEXT   NOT NULL,
    country        TEXT   NOT NULL,
    status         TEXT   NOT NULL CHECK (status IN ('active', 'frozen', 'closed')),
    kyb_status     TEXT   NOT NULL,
    funding_method TEXT   NOT NULL,
    fee_bps        BIGINT NOT NULL CHECK (fee_bps BETWEEN 0 AND 10000),
    premium_bps    BIGINT NOT NULL CHECK (premium_bps BETWEEN 0 AND 10000),
    tolerance_bps  BIGINT NOT NULL CHECK (tolerance_bps BETWEEN 0 AND 500),
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- A person. Reference table: a person may work for several companies. Phone, address and birth date are
-- sealed in details; password_hash is '' for those who never sign in.
CREATE TABLE users (
    user_id       TEXT    NOT NULL,
    email         TEXT    NOT NULL,
    email_key     TEXT    NOT NULL,
    password_hash TEXT    NOT NULL,
    first_name    TEXT    NOT NULL,
    last_name     TEXT    NOT NULL,
    country       TEXT    NOT NULL,
    details       TEXT    NOT NULL,
    complete      BOOLEAN NOT NULL,
    version       BIGINT  NOT NULL,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    PRIMARY KEY (user_id)
);
CREATE UNIQUE INDEX users_by_email ON users (email_key);

-- Who may act for a company by signing in.
CREATE TABLE members (
    company_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, user_id)
);
CREATE INDEX members_of_user ON members (user_id);

-- An authentication app of a company. Found by client_id, which is as unique as an id.
CREATE TABLE apps (
    company_id    TEXT   NOT NULL,
    app_id        TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    client_id     TEXT   NOT NULL,
    secret_digest TEXT   NOT NULL,
    redirect_uri  TEXT   NOT NULL,
    scopes        TEXT   NOT NULL,
    status        TEXT   NOT NULL CHECK (status IN ('active', 'disabled')),
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, app_id)
);
CREATE UNIQUE INDEX apps_by_client ON apps (client_id);
-- A token is granted to an app of another company: it finds its app by id alone.
CREATE UNIQUE INDEX apps_by_id ON apps (app_id);

-- Credentials are found by digest before anyone knows the company: reference tables, small.
-- 0 stands for never in expires_at, revoked_at and last_used_at.
CREATE TABLE api_keys (
    digest       TEXT   NOT NULL,
    company_id   TEXT   NOT NULL,
    key_id       TEXT   NOT NULL,
    app_id       TEXT   NOT NULL,
    hint         TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE UNIQUE INDEX api_keys_of_company ON api_keys (company_id, key_id);

CREATE TABLE access_tokens (
    digest       TEXT   NOT NULL,
    company_id   TEXT   NOT NULL,
    token_id     TEXT   NOT NULL,
    app_id       TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE UNIQUE INDEX access_tokens_of_company ON access_tokens (company_id, token_id);
