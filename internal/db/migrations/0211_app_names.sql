-- +goose Up
-- What an app's name looks like at a glance, for comparing. Names from before are compared as far as plain letters go.
ALTER TABLE apps ADD COLUMN look TEXT NOT NULL DEFAULT '';

UPDATE apps SET look = REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(LOWER(name), ' ', ''), 'i', 'l'), 'rn', 'm'), 'vv', 'w'), 'cl', 'd');

CREATE INDEX apps_by_look ON apps (look);
