-- +goose Up
-- Which further nodes of a chain have blocks that its watcher's own node has otherwise, by name: whoever of them falls silent has taken
-- nothing back.

ALTER TABLE chain_cursors ADD COLUMN contradicted_by TEXT NOT NULL DEFAULT '';
