-- +goose Up
-- settings, leases and jobs belong to the whole service, not to a company.
CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE leases (
    name   TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until  BIGINT NOT NULL
);

CREATE TABLE idempotency (
    principal   TEXT NOT NULL,
    route       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    response    TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (principal, route, key)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE history (
    company_id TEXT NOT NULL,
    object_id  TEXT NOT NULL,
    version    BIGINT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    reason     TEXT NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (company_id, object_id, version)
);

CREATE TABLE jobs (
    company_id TEXT NOT NULL,
    job_id     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    payload    TEXT NOT NULL,
    run_at     BIGINT NOT NULL,
    attempt    BIGINT NOT NULL DEFAULT 0,
    parked     BOOLEAN NOT NULL DEFAULT FALSE,
    last_error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (company_id, job_id)
);
-- The runner takes what is due, whoever's it is.
CREATE INDEX jobs_due ON jobs (run_at) WHERE parked = FALSE;
