-- +goose Up

-- The house's own people. They are no users: no table, cookie or page of companies knows them.
CREATE TABLE operators (
    operator_id   TEXT   NOT NULL PRIMARY KEY,
    name          TEXT   NOT NULL,
    email         TEXT   NOT NULL,
    email_key     TEXT   NOT NULL,
    password_hash TEXT   NOT NULL,
    secret        TEXT   NOT NULL, -- of their authenticator, sealed
    last_step     BIGINT NOT NULL, -- the last of its steps that was taken
    status        TEXT   NOT NULL CHECK (status IN ('active', 'removed')),
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX operators_by_email ON operators (email_key) WHERE status = 'active';

CREATE TABLE operator_sessions (
    digest       TEXT   NOT NULL PRIMARY KEY,
    operator_id  TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL
);

-- What operators did. Rows are only added.
CREATE TABLE operator_acts (
    act_id      TEXT   NOT NULL PRIMARY KEY,
    at          BIGINT NOT NULL,
    operator_id TEXT   NOT NULL, -- '' for somebody at the machine
    name        TEXT   NOT NULL,
    action      TEXT   NOT NULL,
    company_id  TEXT   NOT NULL,
    object_id   TEXT   NOT NULL,
    reason      TEXT   NOT NULL
);
CREATE INDEX operator_acts_by_time ON operator_acts (at, act_id);

-- What one operator asks for and another one must agree to.
CREATE TABLE operator_requests (
    request_id  TEXT   NOT NULL PRIMARY KEY,
    action      TEXT   NOT NULL,
    company_id  TEXT   NOT NULL,
    object_id   TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    asked_by    TEXT   NOT NULL,
    asked_at    BIGINT NOT NULL,
    state       TEXT   NOT NULL CHECK (state IN ('open', 'agreed', 'dropped')),
    answered_by TEXT   NOT NULL,
    answered_at BIGINT NOT NULL,
    version     BIGINT NOT NULL
);
CREATE UNIQUE INDEX operator_requests_open ON operator_requests (action, company_id, object_id) WHERE state = 'open';
CREATE INDEX operator_requests_of_object ON operator_requests (company_id, object_id, action);

-- Reports of comparing the books with the chains and the banks.
CREATE TABLE reconciliations (
    reconciliation_id TEXT   NOT NULL PRIMARY KEY,
    at                BIGINT NOT NULL,
    differences       BIGINT NOT NULL,
    report            TEXT   NOT NULL -- JSON
);
CREATE INDEX reconciliations_by_time ON reconciliations (at, reconciliation_id);
