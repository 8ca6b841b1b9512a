-- +goose Up
-- +stipend Alone

-- Events of one name that a change leaves for many objects at once, each told of itself, are one row. Their ids are a run, and so are those of their
-- objects: they differ in the last character only, which the row's own ids have as 'z'. objects is the last character of each object's
-- id, '' for a row of one event. Each event's id ends with its place in the row, position is that of the last one, and data has a line for each.
ALTER TABLE events ADD COLUMN objects TEXT NOT NULL DEFAULT '';
