-- +goose Up

-- Where each watcher stands. One row per chain; every step moves it by compare-and-set, so two watchers cannot both step.
CREATE TABLE chain_cursors (
    chain   TEXT   NOT NULL,
    height  BIGINT NOT NULL,
    hash    TEXT   NOT NULL,
    updated BIGINT NOT NULL,
    PRIMARY KEY (chain)
);

-- The last blocks connected, so that a reorganisation can be walked back by hash.
CREATE TABLE chain_blocks (
    chain  TEXT   NOT NULL,
    height BIGINT NOT NULL,
    hash   TEXT   NOT NULL,
    PRIMARY KEY (chain, height)
);

-- The next unused index of each branch of a wallet.
CREATE TABLE chain_pools (
    chain  TEXT   NOT NULL,
    branch BIGINT NOT NULL,
    next   BIGINT NOT NULL,
    PRIMARY KEY (chain, branch)
);

-- Addresses given out. They are watched for ever and never used again for another object.
CREATE TABLE chain_addresses (
    chain      TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    branch     BIGINT NOT NULL,
    idx        BIGINT NOT NULL,
    created    BIGINT NOT NULL,
    PRIMARY KEY (chain, address)
);

CREATE TABLE chain_outputs (
    chain              TEXT    NOT NULL,
    txid               TEXT    NOT NULL,
    vout               BIGINT  NOT NULL,
    company_id         TEXT    NOT NULL,
    object_id          TEXT    NOT NULL,
    address            TEXT    NOT NULL,
    branch             BIGINT  NOT NULL,
    idx                BIGINT  NOT NULL,
    amount             BIGINT  NOT NULL CHECK (amount BETWEEN 0 AND 2100000000000000),
    own                BOOLEAN NOT NULL,
    coinbase           BOOLEAN NOT NULL,
    state              TEXT    NOT NULL CHECK (state IN ('seen', 'mined', 'replaced', 'evicted')),
    height             BIGINT  NOT NULL,
    block_hash         TEXT    NOT NULL,
    first_seen         BIGINT  NOT NULL,
    want_confirmations BIGINT  NOT NULL CHECK (want_confirmations >= 0),
    confirmed          BOOLEAN NOT NULL,
    replaced_by        TEXT    NOT NULL,
    spend_state        TEXT    NOT NULL CHECK (spend_state IN ('available', 'reserved', 'spent')),
    reserved_by        TEXT    NOT NULL,
    spent_by           TEXT    NOT NULL,
    spent_height       BIGINT  NOT NULL,
    depth              BIGINT  NOT NULL,
    PRIMARY KEY (chain, txid, vout)
);
CREATE INDEX chain_outputs_state ON chain_outputs (chain, state, confirmed, height);
CREATE INDEX chain_outputs_coins ON chain_outputs (chain, spend_state, spent_height, amount);
CREATE INDEX chain_outputs_object ON chain_outputs (company_id, object_id);
CREATE INDEX chain_outputs_spent_by ON chain_outputs (chain, spent_by);
CREATE INDEX chain_outputs_reserved_by ON chain_outputs (chain, reserved_by);

-- Our own transactions.
CREATE TABLE chain_txs (
    chain              TEXT    NOT NULL,
    txid               TEXT    NOT NULL,
    company_id         TEXT    NOT NULL,
    object_id          TEXT    NOT NULL,
    state              TEXT    NOT NULL CHECK (state IN ('watched', 'seen', 'mined', 'conflicted')),
    height             BIGINT  NOT NULL,
    want_confirmations BIGINT  NOT NULL CHECK (want_confirmations >= 0),
    confirmed          BOOLEAN NOT NULL,
    conflicted_by      TEXT    NOT NULL,
    created            BIGINT  NOT NULL,
    PRIMARY KEY (chain, txid)
);
CREATE INDEX chain_txs_state ON chain_txs (chain, state, confirmed, height);

-- The coins that each transaction of interest spends: a second spender of one of them replaces the first.
CREATE TABLE chain_spends (
    chain     TEXT   NOT NULL,
    prev_txid TEXT   NOT NULL,
    prev_vout BIGINT NOT NULL,
    txid      TEXT   NOT NULL,
    height    BIGINT NOT NULL,
    PRIMARY KEY (chain, prev_txid, prev_vout, txid)
);
CREATE INDEX chain_spends_height ON chain_spends (chain, height);
