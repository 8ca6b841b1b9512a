-- +goose Up
-- Simulated networks of accounts, sandbox only. A balance is what the blocks of the best chain left; what each transaction moved
-- is kept with it, so that a block can be taken back.

CREATE TABLE sim_evm_blocks (
    network TEXT   NOT NULL,
    hash    TEXT   NOT NULL,
    height  BIGINT NOT NULL,
    prev    TEXT   NOT NULL,
    mined   BIGINT NOT NULL,
    active  BOOLEAN NOT NULL,
    PRIMARY KEY (network, hash)
);
CREATE INDEX sim_evm_blocks_height ON sim_evm_blocks (network, active, height);

CREATE TABLE sim_evm_txs (
    network TEXT    NOT NULL,
    txid    TEXT    NOT NULL,
    sender  TEXT    NOT NULL,
    nonce   BIGINT  NOT NULL,
    raw     TEXT    NOT NULL,
    state   TEXT    NOT NULL CHECK (state IN ('mempool', 'mined', 'dropped')),
    block   TEXT    NOT NULL,
    place   BIGINT  NOT NULL,
    failed  BOOLEAN NOT NULL,
    fee     BIGINT  NOT NULL,
    PRIMARY KEY (network, txid)
);
CREATE INDEX sim_evm_txs_sender ON sim_evm_txs (network, sender, nonce);
CREATE INDEX sim_evm_txs_state ON sim_evm_txs (network, state);
CREATE INDEX sim_evm_txs_block ON sim_evm_txs (network, block, place);

CREATE TABLE sim_evm_accounts (
    network TEXT   NOT NULL,
    address TEXT   NOT NULL,
    nonce   BIGINT NOT NULL,
    PRIMARY KEY (network, address)
);

CREATE TABLE sim_evm_balances (
    network TEXT   NOT NULL,
    address TEXT   NOT NULL,
    asset   TEXT   NOT NULL,
    amount  BIGINT NOT NULL,
    PRIMARY KEY (network, address, asset)
);
