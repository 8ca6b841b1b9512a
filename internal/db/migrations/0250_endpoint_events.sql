-- +goose Up

-- An endpoint's events, of which a ping is one, carry its version.
ALTER TABLE webhook_endpoints DROP COLUMN pings;
