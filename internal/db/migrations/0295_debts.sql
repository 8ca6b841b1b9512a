-- +goose Up
-- What is owed to the house is looked at every minute, and before a company takes money out: there are few such lines.
CREATE INDEX ledger_lines_debts ON ledger_lines (company_id, asset) WHERE code = '1300';
