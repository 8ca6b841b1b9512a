-- +goose Up

-- Where an event stands in the order in which all readers see events; 0 until it has been placed. Readers go on after the
-- last position that they saw, so an event that commits later must stand later, whatever its id or instant.
ALTER TABLE events ADD COLUMN position BIGINT NOT NULL DEFAULT 0;
CREATE INDEX events_new ON events (created_at) WHERE position = 0;
CREATE INDEX events_by_age ON events (created_at);
CREATE INDEX events_by_position ON events (company_id, position);

-- An address that a company wants events sent to, and the state of its queue.
CREATE TABLE webhook_endpoints (
    company_id      TEXT   NOT NULL,
    endpoint_id     TEXT   NOT NULL,
    slot            BIGINT NOT NULL CHECK (slot BETWEEN 1 AND 10), -- a company has ten
    url             TEXT   NOT NULL,
    description     TEXT   NOT NULL,
    events          TEXT   NOT NULL, -- JSON array of names and prefixes; [] is all
    status          TEXT   NOT NULL CHECK (status IN ('enabled', 'disabled_manual', 'disabled_auto')),
    reason          TEXT   NOT NULL,
    secret          TEXT   NOT NULL, -- sealed
    previous_secret TEXT   NOT NULL, -- sealed; '' for none
    previous_until  BIGINT NOT NULL,
    pings           BIGINT NOT NULL,
    version         BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    -- The queue: wake_at is when somebody must look at it, 0 for never; wakes counts the additions, so that who leaves it
    -- notices what came meanwhile; holder works on it until leased_until.
    wake_at         BIGINT NOT NULL,
    wakes           BIGINT NOT NULL,
    holder          TEXT   NOT NULL,
    leased_until    BIGINT NOT NULL,
    failures        BIGINT NOT NULL, -- in a row
    failing_since   BIGINT NOT NULL,
    paused_until    BIGINT NOT NULL,
    last_success_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, endpoint_id)
);
CREATE UNIQUE INDEX webhook_endpoints_slots ON webhook_endpoints (company_id, slot);
CREATE INDEX webhook_endpoints_due ON webhook_endpoints (wake_at) WHERE wake_at > 0;

-- One event for one endpoint. Its text is the event's own row.
CREATE TABLE webhook_deliveries (
    company_id  TEXT   NOT NULL,
    endpoint_id TEXT   NOT NULL,
    position    BIGINT NOT NULL, -- of the event
    event_id    TEXT   NOT NULL,
    object_id   TEXT   NOT NULL,
    state       TEXT   NOT NULL CHECK (state IN ('pending', 'succeeded', 'failed', 'cancelled', 'blocked')),
    tries       BIGINT NOT NULL, -- of the present schedule
    attempts    BIGINT NOT NULL, -- in all
    next_at     BIGINT NOT NULL,
    error       TEXT   NOT NULL, -- class of the last failure
    http_status BIGINT NOT NULL, -- of the last answer, 0 for none
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, endpoint_id, position)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (company_id, endpoint_id, next_at, position) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_of_object ON webhook_deliveries (company_id, endpoint_id, object_id, position) WHERE state = 'pending';

CREATE TABLE webhook_attempts (
    company_id  TEXT   NOT NULL,
    endpoint_id TEXT   NOT NULL,
    position    BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    took_ms     BIGINT NOT NULL,
    url         TEXT   NOT NULL,
    sent_at     BIGINT NOT NULL, -- webhook-timestamp, seconds
    http_status BIGINT NOT NULL,
    error       TEXT   NOT NULL,
    response    TEXT   NOT NULL, -- the first 4 KiB
    PRIMARY KEY (company_id, endpoint_id, position, attempt)
);
