-- +goose Up
-- What further nodes of a chain say of the blocks that its watcher has recorded: the height up to which one of them has the same
-- (without any, all of it counts as attested), what is wrong, and when the last block was made, 0 where that is not known yet.

ALTER TABLE chain_cursors ADD COLUMN attested BIGINT NOT NULL DEFAULT 9223372036854775807;
ALTER TABLE chain_cursors ADD COLUMN alarms TEXT NOT NULL DEFAULT '';
ALTER TABLE chain_cursors ADD COLUMN tip_time BIGINT NOT NULL DEFAULT 0;
