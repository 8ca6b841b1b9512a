-- +goose Up

-- Whether a payee was paid before decides whether a changed destination has to wait.
CREATE INDEX payments_by_payee ON payments (company_id, payee_id);
