-- +goose Up

-- The simulated chain of the sandbox: real transactions and block headers in rows. Empty in production.
CREATE TABLE sim_blocks (
    hash   TEXT    NOT NULL,
    height BIGINT  NOT NULL,
    prev   TEXT    NOT NULL,
    header TEXT    NOT NULL,
    active BOOLEAN NOT NULL,
    PRIMARY KEY (hash)
);
CREATE INDEX sim_blocks_height ON sim_blocks (height, active);

-- A block keeps its transactions even after it left the chain; a transaction stands in at most one active block.
CREATE TABLE sim_block_txs (
    hash     TEXT   NOT NULL,
    position BIGINT NOT NULL,
    txid     TEXT   NOT NULL,
    PRIMARY KEY (hash, position)
);

CREATE TABLE sim_txs (
    txid     TEXT   NOT NULL,
    raw      TEXT   NOT NULL,
    fee      BIGINT NOT NULL,
    state    TEXT   NOT NULL CHECK (state IN ('mempool', 'mined', 'dropped')),
    arrived  BIGINT NOT NULL,
    PRIMARY KEY (txid)
);
CREATE INDEX sim_txs_state ON sim_txs (state, arrived);

-- The outputs of live transactions, with the live transaction that spends each.
CREATE TABLE sim_outputs (
    txid     TEXT   NOT NULL,
    vout     BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    script   TEXT   NOT NULL,
    spent_by TEXT   NOT NULL,
    PRIMARY KEY (txid, vout)
);
CREATE INDEX sim_outputs_script ON sim_outputs (script, spent_by, amount);
CREATE INDEX sim_outputs_spent_by ON sim_outputs (spent_by);
