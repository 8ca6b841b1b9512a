-- +goose Up

-- What failed and waits, by object: an earlier event holds back the later ones of its object. It has the few rows that are asked
-- for and no others, so that its use costs nothing that grows with a queue.
DROP INDEX webhook_deliveries_of_object;
CREATE INDEX webhook_deliveries_retried ON webhook_deliveries (company_id, endpoint_id, object_id, position) WHERE state = 'pending' AND tries > 0;
