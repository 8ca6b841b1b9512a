-- +goose Up

-- Invoices at a Lightning node: each asks one object's payer for the amount of one quote.
CREATE TABLE lightning_invoices (
    company_id   TEXT   NOT NULL,
    invoice_id   TEXT   NOT NULL,
    object_id    TEXT   NOT NULL,
    quote_id     TEXT   NOT NULL,
    state        TEXT   NOT NULL CHECK (state IN ('wanted', 'open', 'ending', 'ended', 'paid')),
    version      BIGINT NOT NULL,
    amount       BIGINT NOT NULL CHECK (amount > 0), -- satoshis
    memo         TEXT   NOT NULL,
    expires_at   BIGINT NOT NULL,
    hash         TEXT   NOT NULL, -- of the preimage, hex
    preimage     TEXT   NOT NULL, -- sealed; '' once the node has it
    node_id      TEXT   NOT NULL, -- the node that made it, '' before
    request      TEXT   NOT NULL, -- BOLT 11, '' before
    paid         BIGINT NOT NULL CHECK (paid >= 0), -- satoshis
    settle_index BIGINT NOT NULL, -- the node's count of settled invoices, 0 before
    settled_at   BIGINT NOT NULL, -- by the node's clock, 0 before
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, invoice_id)
);
CREATE INDEX lightning_invoices_object ON lightning_invoices (company_id, object_id);
-- The node names a paid invoice by its hash, whoever's it is.
CREATE UNIQUE INDEX lightning_invoices_hash ON lightning_invoices (hash);
-- What is asked for one by one before the node's count is known.
CREATE INDEX lightning_invoices_open ON lightning_invoices (state, invoice_id) WHERE state IN ('open', 'ending');

-- Up to which of a node's settled invoices everything was taken in.
CREATE TABLE lightning_cursors (
    node_id      TEXT   NOT NULL,
    settle_index BIGINT NOT NULL,
    PRIMARY KEY (node_id)
);
