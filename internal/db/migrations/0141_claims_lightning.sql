-- +goose Up

-- Of what is booked as the claim's money: what came over Lightning and is in the node's channels, not in the wallet.
ALTER TABLE claims ADD COLUMN channels BIGINT NOT NULL DEFAULT 0 CHECK (channels >= 0 AND channels <= wallet);
