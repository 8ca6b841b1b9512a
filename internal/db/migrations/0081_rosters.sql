-- +goose Up

-- Lists of recipients are answered by each process from its memory (package roster). The version counts the commits that
-- changed recipients of a company; the changes say which, so that a process takes over only those. Changes up to floor
-- are forgotten: a process that is further behind reads all recipients again.
CREATE TABLE recipient_rosters (
    company_id TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    floor      BIGINT NOT NULL,
    changed    BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);
CREATE TABLE recipient_changes (
    company_id   TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    recipient_id TEXT   NOT NULL,
    PRIMARY KEY (company_id, version, recipient_id)
);

-- Nothing sorts by these in the database any more.
DROP INDEX recipients_by_name;
DROP INDEX recipients_by_created;
