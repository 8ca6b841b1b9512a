-- +goose Up

-- Prices held for a company's objects. number counts the quotes of one object in one asset from 1.
CREATE TABLE quotes (
    company_id    TEXT   NOT NULL,
    quote_id      TEXT   NOT NULL,
    object_id     TEXT   NOT NULL,
    number        BIGINT NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('active', 'accepted', 'expired', 'superseded', 'cancelled')),
    version       BIGINT NOT NULL,
    valid_from    BIGINT NOT NULL,
    valid_to      BIGINT NOT NULL,
    grace         BIGINT NOT NULL CHECK (grace >= 0),
    cancelled_at  BIGINT NOT NULL, -- 0: never
    due_asset     TEXT   NOT NULL,
    due           BIGINT NOT NULL CHECK (due > 0),
    funding_asset TEXT   NOT NULL,
    funding       BIGINT NOT NULL CHECK (funding > 0),
    rate          TEXT   NOT NULL,
    address       TEXT   NOT NULL,
    network       TEXT   NOT NULL,
    PRIMARY KEY (company_id, quote_id)
);
CREATE UNIQUE INDEX quotes_number ON quotes (company_id, object_id, funding_asset, number);
-- One price at a time, whoever asks how often.
CREATE UNIQUE INDEX quotes_active ON quotes (company_id, object_id, funding_asset) WHERE state = 'active';
-- The sweep for what has run out asks for all companies at once.
CREATE INDEX quotes_due ON quotes (valid_to) WHERE state = 'active';
