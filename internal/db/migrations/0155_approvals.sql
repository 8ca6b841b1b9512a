-- +goose Up
-- Who made a payroll: a member at a page, '' for an app.
ALTER TABLE payrolls ADD COLUMN created_by TEXT NOT NULL DEFAULT '';

-- Members who approved that a payroll's money moves.
CREATE TABLE payroll_approvals (
    company_id TEXT   NOT NULL,
    payroll_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (company_id, payroll_id, user_id)
);

-- Above which total a company's payrolls wait for a second member, and what somebody proposes instead. A currency of '' is no limit;
-- proposed_by is '' while nothing is proposed.
CREATE TABLE approval_limits (
    company_id        TEXT   PRIMARY KEY,
    currency          TEXT   NOT NULL,
    amount            BIGINT NOT NULL,
    proposal_id       TEXT   NOT NULL,
    proposed_by       TEXT   NOT NULL,
    proposed_currency TEXT   NOT NULL,
    proposed_amount   BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL
);
