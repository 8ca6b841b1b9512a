-- +goose Up

-- When money last began to go elsewhere: a destination with a share was added or replaced, or shares were moved.
ALTER TABLE distribution_owners ADD COLUMN moved_at BIGINT NOT NULL DEFAULT 0;

-- Who changed an owner's destinations, when, from what to what: never updated, never deleted. The states are JSON with
-- bank data masked.
CREATE TABLE distribution_changes (
    owner_id        TEXT   NOT NULL,
    change_id       TEXT   NOT NULL,
    distribution_id TEXT   NOT NULL,
    action          TEXT   NOT NULL CHECK (action IN ('added', 'replaced', 'removed', 'reallocated')),
    actor_kind      TEXT   NOT NULL,
    actor_id        TEXT   NOT NULL,
    company_id      TEXT   NOT NULL,
    user_id         TEXT   NOT NULL,
    state_before    TEXT   NOT NULL,
    state_after     TEXT   NOT NULL,
    at              BIGINT NOT NULL,
    PRIMARY KEY (owner_id, change_id)
);
