-- +goose Up
-- The overview asks which payments of a company somebody has to look at; hardly any, among many.
CREATE INDEX payments_to_correct ON payments (company_id, payroll_id) WHERE state IN ('action_required', 'returned');
