-- +goose Up
-- What programs asked for a company in the last 30 days: path, body and answer without secrets and personal data. took is in
-- microseconds.
CREATE TABLE requests (
    company_id      TEXT    NOT NULL,
    at              BIGINT  NOT NULL,
    id              TEXT    NOT NULL,
    request_id      TEXT    NOT NULL,
    method          TEXT    NOT NULL,
    route           TEXT    NOT NULL,
    path            TEXT    NOT NULL,
    status          BIGINT  NOT NULL,
    code            TEXT    NOT NULL,
    app_id          TEXT    NOT NULL,
    credential      TEXT    NOT NULL,
    took            BIGINT  NOT NULL,
    idempotency_key TEXT    NOT NULL,
    replayed        BOOLEAN NOT NULL,
    body            TEXT    NOT NULL,
    answer          TEXT    NOT NULL,
    PRIMARY KEY (company_id, at, id)
);

CREATE INDEX requests_by_request_id ON requests (company_id, request_id);
