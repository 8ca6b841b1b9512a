-- +goose Up
CREATE TABLE events (
    company_id TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    object_id  TEXT NOT NULL,
    sequence   BIGINT NOT NULL,
    name       TEXT NOT NULL,
    data       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, event_id)
);
-- One event per object and transition.
CREATE UNIQUE INDEX events_once ON events (company_id, object_id, name, sequence);
