-- +goose Up

-- Up to which position events have been added to the queues of endpoints. It moves with every few events, so it stands apart from the
-- settings, which each transaction reads.
CREATE TABLE event_marks (
    name     TEXT   NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL
);
INSERT INTO event_marks (name, position)
SELECT 'queued', COALESCE(MAX(CAST(value AS BIGINT)), 0) FROM settings WHERE key = 'webhook.mark';
DELETE FROM settings WHERE key = 'webhook.mark';
