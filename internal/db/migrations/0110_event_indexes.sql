-- +goose Up

-- Both are asked about placed events only. An event that is not placed yet is written in the transaction that it tells of, where
-- every index costs; it enters these two when it is placed.
DROP INDEX events_by_position;
CREATE INDEX events_by_position ON events (company_id, position) WHERE position > 0;
DROP INDEX events_by_age;
CREATE INDEX events_by_age ON events (created_at) WHERE position > 0;
