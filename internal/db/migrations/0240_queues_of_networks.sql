-- +goose Up
-- A company has one queue for each network that it is paid from: each waits for reasons of its own.
ALTER TABLE payout_queues RENAME TO payout_queues_of_companies;
CREATE TABLE payout_queues (
    company_id TEXT   NOT NULL,
    rail       TEXT   NOT NULL, -- as of its outputs
    held       TEXT   NOT NULL, -- '' or why the queue waits
    held_since BIGINT NOT NULL,
    wake_at    BIGINT NOT NULL, -- 0: no look is scheduled
    version    BIGINT NOT NULL,
    PRIMARY KEY (company_id, rail)
);
INSERT INTO payout_queues (company_id, rail, held, held_since, wake_at, version)
    SELECT company_id, 'bitcoin', held, held_since, wake_at, version FROM payout_queues_of_companies;
DROP TABLE payout_queues_of_companies;
