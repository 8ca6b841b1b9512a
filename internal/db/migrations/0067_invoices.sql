-- +goose Up

-- Invoices of users to their payers. company_id is the company for which the user was acting: it hears of the invoice, and
-- is not the one that pays. payroll_id and payment_id name the pay run that pays it, or that paid it; an invoice is in one at
-- most, since taking it asks that it is in none. content is sealed: the lines and the notes.
CREATE TABLE invoices (
    user_id    TEXT   NOT NULL,
    invoice_id TEXT   NOT NULL,
    company_id TEXT   NOT NULL,
    payer_id   TEXT   NOT NULL,
    number     TEXT   NOT NULL,
    status     TEXT   NOT NULL CHECK (status IN ('draft', 'sent', 'in_payroll', 'partially_paid', 'paid', 'void')),
    currency   TEXT   NOT NULL,
    subtotal   BIGINT NOT NULL CHECK (subtotal > 0),
    tax        BIGINT NOT NULL CHECK (tax >= 0),
    total      BIGINT NOT NULL CHECK (total = subtotal + tax),
    paid       BIGINT NOT NULL CHECK (paid >= 0 AND paid <= total),
    issue_date TEXT   NOT NULL,
    due_date   TEXT   NOT NULL,
    content    TEXT   NOT NULL,
    payroll_id TEXT   NOT NULL,
    payment_id TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, invoice_id)
);
CREATE UNIQUE INDEX invoices_by_number ON invoices (user_id, number) WHERE status <> 'void';
-- A pay run names the invoices that it pays.
CREATE UNIQUE INDEX invoices_by_id ON invoices (invoice_id);
