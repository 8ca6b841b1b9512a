-- +goose Up

-- What a sanctions list and a payee (or the paying company) have in common, and what a person decided about it. The listed side
-- is public and stands here in plain words; of the payee there is the id and, of a name, a digest, so that a decision holds
-- until the name changes and nothing personal outlives an erasure.
CREATE TABLE screening_hits (
    company_id TEXT   NOT NULL,
    hit_id     TEXT   NOT NULL,
    subject_id TEXT   NOT NULL, -- recipient, user or company
    kind       TEXT   NOT NULL CHECK (kind IN ('name', 'address')),
    matched    TEXT   NOT NULL, -- digest of the folded name, or the address
    entry_id   TEXT   NOT NULL, -- list and number of the entry
    entry_name TEXT   NOT NULL,
    programs   TEXT   NOT NULL,
    score      BIGINT NOT NULL, -- 1 to 100
    state      TEXT   NOT NULL CHECK (state IN ('open', 'cleared', 'confirmed')),
    reason     TEXT   NOT NULL, -- the decision's
    decided_by TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    decided_at BIGINT NOT NULL, -- 0 while open
    PRIMARY KEY (company_id, hit_id)
);
-- One decision per payee, thing matched and entry.
CREATE UNIQUE INDEX screening_hits_once ON screening_hits (company_id, subject_id, kind, matched, entry_id);
-- Who of a company may not be paid.
CREATE INDEX screening_hits_blocking ON screening_hits (company_id, subject_id) WHERE state <> 'cleared';
