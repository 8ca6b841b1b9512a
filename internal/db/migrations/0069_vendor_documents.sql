-- +goose Up

-- Invoices that vendors sent to a company on paper: a PDF as it came, or an image written anew. payroll_id and payment_id name
-- the pay run that a document was paid by; version guards that only one takes it.
CREATE TABLE vendor_documents (
    company_id  TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    media_type  TEXT   NOT NULL CHECK (media_type IN ('application/pdf', 'image/jpeg')),
    bytes       BIGINT NOT NULL CHECK (bytes > 0),
    sha256      TEXT   NOT NULL,
    payroll_id  TEXT   NOT NULL,
    payment_id  TEXT   NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, document_id)
);

-- The bytes, in pieces that are sealed.
CREATE TABLE vendor_document_chunks (
    company_id  TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    n           BIGINT NOT NULL,
    sealed      TEXT   NOT NULL,
    PRIMARY KEY (company_id, document_id, n)
);
