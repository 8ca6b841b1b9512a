-- +goose Up

-- Money that came in: one row per output that pays an address given out for an object.
CREATE TABLE deposits (
    company_id         TEXT    NOT NULL,
    deposit_id         TEXT    NOT NULL,
    chain              TEXT    NOT NULL,
    txid               TEXT    NOT NULL,
    vout               BIGINT  NOT NULL,
    object_id          TEXT    NOT NULL,
    quote_id           TEXT    NOT NULL, -- '' when nobody expected it
    address            TEXT    NOT NULL,
    asset              TEXT    NOT NULL,
    amount             BIGINT  NOT NULL CHECK (amount >= 0),
    state              TEXT    NOT NULL CHECK (state IN ('seen', 'confirmed', 'reverted', 'replaced', 'evicted')),
    version            BIGINT  NOT NULL,
    timely             BOOLEAN NOT NULL,
    dust               BOOLEAN NOT NULL,
    first_seen         BIGINT  NOT NULL,
    want_confirmations BIGINT  NOT NULL,
    replaced_by        TEXT    NOT NULL,
    PRIMARY KEY (company_id, deposit_id)
);
CREATE UNIQUE INDEX deposits_outpoint ON deposits (company_id, chain, txid, vout);
CREATE INDEX deposits_object ON deposits (company_id, object_id);
-- What waits for a person to find its owner.
CREATE INDEX deposits_unknown ON deposits (company_id, state) WHERE quote_id = '';
