-- +goose Up

-- One attempt to verify a subject: a user (person), a beneficial owner (owner) or a company. current marks the last one.
-- company_id is the company that hears of it. expires_at is 0 unless approved.
CREATE TABLE verifications (
    subject_id   TEXT    NOT NULL,
    case_id      TEXT    NOT NULL,
    company_id   TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('person', 'owner', 'company')),
    state        TEXT    NOT NULL,
    provider     TEXT    NOT NULL,
    provider_ref TEXT    NOT NULL,
    reasons      TEXT    NOT NULL,
    is_current   BOOLEAN NOT NULL,
    expires_at   BIGINT  NOT NULL,
    version      BIGINT  NOT NULL,
    created_at   BIGINT  NOT NULL,
    updated_at   BIGINT  NOT NULL,
    PRIMARY KEY (subject_id, case_id)
);
CREATE UNIQUE INDEX verifications_current ON verifications (subject_id) WHERE is_current = TRUE;
CREATE INDEX verifications_by_ref ON verifications (provider, provider_ref) WHERE provider_ref <> '';
CREATE INDEX verifications_expiring ON verifications (expires_at) WHERE state = 'approved';

-- What a provider has told us once: a repeated callback starts nothing.
CREATE TABLE provider_callbacks (
    provider    TEXT   NOT NULL,
    callback_id TEXT   NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (provider, callback_id)
);

-- What a company tells of itself to be verified, sealed with its key as a subject.
CREATE TABLE company_profiles (
    company_id TEXT   NOT NULL,
    sealed     BYTEA  NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- Who owns or controls a company. Name, birth date and address are sealed with the owner's own key as a subject.
CREATE TABLE owners (
    company_id    TEXT    NOT NULL,
    owner_id      TEXT    NOT NULL,
    sealed        BYTEA   NOT NULL,
    country       TEXT    NOT NULL,
    ownership_bps BIGINT  NOT NULL CHECK (ownership_bps BETWEEN 0 AND 10000),
    control       BOOLEAN NOT NULL,
    kyc_status    TEXT    NOT NULL,
    created_at    BIGINT  NOT NULL,
    PRIMARY KEY (company_id, owner_id)
);
