-- +goose Up

-- The last accepted price of each asset in dollars. Shared by all companies: a reference table, one row per asset.
CREATE TABLE rates (
    asset       TEXT   NOT NULL,
    rate        TEXT   NOT NULL, -- dollars for one whole unit, plain decimal
    sources     TEXT   NOT NULL, -- who agreed on it, comma-separated
    observed_at BIGINT NOT NULL, -- the oldest observation that it rests on
    valid_to    BIGINT NOT NULL, -- from here on it is too old to quote by
    PRIMARY KEY (asset)
);
