-- +goose Up

-- Everybody and everything whose documents are here: a user, a beneficial owner of a company, or a company. wrapped_key opens
-- only with the service's data key; '' once the subject is erased, and then nothing below can be read any more, in backups
-- either. files counts present documents, bytes all that are kept.
CREATE TABLE subjects (
    subject_id  TEXT   NOT NULL,
    wrapped_key TEXT   NOT NULL,
    files       BIGINT NOT NULL CHECK (files >= 0),
    bytes       BIGINT NOT NULL CHECK (bytes >= 0),
    created_at  BIGINT NOT NULL,
    erased_at   BIGINT NOT NULL,
    PRIMARY KEY (subject_id)
);

-- An image, or a company's paper. A later one of the same kind, side and country takes its place; the earlier one is kept
-- until the verification is decided.
CREATE TABLE documents (
    subject_id      TEXT   NOT NULL,
    document_id     TEXT   NOT NULL,
    doc_type        TEXT   NOT NULL,
    category        TEXT   NOT NULL CHECK (category IN ('front', 'back')),
    issuing_country TEXT   NOT NULL,
    state           TEXT   NOT NULL CHECK (state IN ('current', 'replaced')),
    bytes           BIGINT NOT NULL,
    width           BIGINT NOT NULL,
    height          BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (subject_id, document_id)
);
CREATE UNIQUE INDEX documents_current ON documents (subject_id, doc_type, category, issuing_country) WHERE state = 'current';

-- The bytes, in pieces sealed with the subject's key.
CREATE TABLE document_chunks (
    subject_id  TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    n           BIGINT NOT NULL,
    sealed      BYTEA  NOT NULL,
    PRIMARY KEY (subject_id, document_id, n)
);

-- One tax id of each country, sealed with the subject's key.
CREATE TABLE tax_ids (
    subject_id      TEXT   NOT NULL,
    issuing_country TEXT   NOT NULL,
    tax_id_type     TEXT   NOT NULL,
    sealed          BYTEA  NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (subject_id, issuing_country)
);
