-- +goose Up
-- A form that is sent twice makes one payroll: the key that it carries names the payroll that it made.
CREATE TABLE payroll_keys (
    company_id TEXT   NOT NULL,
    form_key   TEXT   NOT NULL,
    payroll_id TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, form_key)
);
