-- +goose Up
-- On a network of accounts each asset has its own line: too little of one holds up no other.
CREATE INDEX outputs_lines ON outputs (company_id, rail, asset, queued_at, output_id) WHERE state = 'queued' AND rail <> 'bank' AND rail <> 'bitcoin';
