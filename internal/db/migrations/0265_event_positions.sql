-- +goose Up

-- An event gets its position with its commit. PostgreSQL counts them here, from the setting webhook.position on; on SQLite, where
-- one commits after the other anyway, that setting is the last one.
CREATE TABLE event_positions (
    position BIGSERIAL NOT NULL PRIMARY KEY
);

-- Up to where events have been added to queues: as far as they had been placed until now.
INSERT INTO settings (key, value)
SELECT 'webhook.mark', value FROM settings WHERE key = 'webhook.position';

-- What waited to be placed comes behind, in the order in which it would have been.
UPDATE events SET position = w.position FROM (
    SELECT company_id, event_id, ROW_NUMBER() OVER (ORDER BY created_at, sequence, event_id)
        + (SELECT COALESCE(MAX(CAST(value AS BIGINT)), 0) FROM settings WHERE key = 'webhook.position') AS position
    FROM events WHERE position = 0
) AS w WHERE events.company_id = w.company_id AND events.event_id = w.event_id;
INSERT INTO settings (key, value)
SELECT 'webhook.position', CAST(MAX(position) AS TEXT) FROM events HAVING MAX(position) > 0
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

DROP INDEX events_new;
DROP INDEX events_by_age;
DROP INDEX events_by_position;
CREATE INDEX events_by_position ON events (company_id, position);
CREATE UNIQUE INDEX events_in_order ON events (position);
