-- +goose Up

-- Where those payments of a payroll stand that have not gone a way of their own: they move together, with one change of this row.
-- payments.version is 0 and payments.state '' until a payment leaves them.
ALTER TABLE payrolls ADD COLUMN payments_state TEXT NOT NULL DEFAULT '';
ALTER TABLE payrolls ADD COLUMN payments_version BIGINT NOT NULL DEFAULT 0;

-- Before its release all payments of a payroll are alike. Those of the others keep what is theirs.
UPDATE payrolls SET
    payments_state = COALESCE((SELECT MIN(m.state) FROM payments m WHERE m.company_id = payrolls.company_id AND m.payroll_id = payrolls.payroll_id), ''),
    payments_version = COALESCE((SELECT MIN(m.version) FROM payments m WHERE m.company_id = payrolls.company_id AND m.payroll_id = payrolls.payroll_id), 0)
WHERE state IN ('pending', 'received', 'expired_unfunded') OR state = 'on_hold' AND held_from = 'received';
UPDATE payments SET state = '', version = 0 WHERE EXISTS (
    SELECT 1 FROM payrolls p WHERE p.company_id = payments.company_id AND p.payroll_id = payments.payroll_id AND p.payments_version > 0);

-- The state says it.
ALTER TABLE payments DROP COLUMN received;
ALTER TABLE payments DROP COLUMN released;
ALTER TABLE payments DROP COLUMN fulfilled;
