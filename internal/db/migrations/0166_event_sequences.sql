-- +goose Up
-- The last sequence of the events of an object whose changes several rows tell of: a person, a recipient, a company. The events of
-- every other object carry the version of its one row.
CREATE TABLE event_sequences (
    company_id TEXT NOT NULL,
    object_id  TEXT NOT NULL,
    sequence   BIGINT NOT NULL,
    PRIMARY KEY (company_id, object_id)
);
