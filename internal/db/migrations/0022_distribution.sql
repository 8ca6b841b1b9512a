-- +goose Up

-- One row per owner with destinations. Every change of an owner's destinations first changes this row, which
-- both counts them and puts concurrent changes in a line.
CREATE TABLE distribution_owners (
    owner_id     TEXT   NOT NULL,
    destinations BIGINT NOT NULL CHECK (destinations BETWEEN 0 AND 3),
    version      BIGINT NOT NULL,
    PRIMARY KEY (owner_id)
);

-- Payment destinations of users and recipients. They belong to the person paid, whoever pays, so the owner stands
-- first in the key. Bank data is sealed; masked is what may be shown without the key. An address on a public
-- chain is no secret and stands in the open, where it can be compared.
CREATE TABLE distributions (
    owner_id        TEXT   NOT NULL,
    distribution_id TEXT   NOT NULL,
    kind            TEXT   NOT NULL CHECK (kind IN ('crypto', 'fiat')),
    symbol          TEXT   NOT NULL,
    rail            TEXT   NOT NULL,
    scheme          TEXT   NOT NULL,
    country         TEXT   NOT NULL,
    network         TEXT   NOT NULL,
    address         TEXT   NOT NULL,
    tag             TEXT   NOT NULL,
    transfer_memo   TEXT   NOT NULL,
    sealed          TEXT   NOT NULL,
    masked          TEXT   NOT NULL,
    allocation      BIGINT NOT NULL CHECK (allocation BETWEEN 0 AND 100),
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (owner_id, distribution_id)
);
