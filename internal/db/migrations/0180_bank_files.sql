-- +goose Up
-- What waits for a bank is in outputs, by rail and state. A second list of it said nothing more.
DROP TABLE payout_bank_queue;

-- Written before the bank can see it; never updated except for where it stands.
CREATE TABLE bank_files (
    company_id TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    account    TEXT   NOT NULL, -- of the house, that pays
    name       TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    payments   BIGINT NOT NULL,
    total      BIGINT NOT NULL,
    execute_on TEXT   NOT NULL, -- 2026-03-02
    checksum   TEXT   NOT NULL, -- SHA-256 of the file, hexadecimal
    sealed     TEXT   NOT NULL, -- the file
    state      TEXT   NOT NULL,
    token      TEXT   NOT NULL, -- under which it was staged, '' before it is handed over
    attempts   BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    sent_at    BIGINT NOT NULL, -- 0 before the bank has it
    PRIMARY KEY (company_id, file_id)
);
CREATE UNIQUE INDEX bank_files_number ON bank_files (number);
CREATE INDEX bank_files_open ON bank_files (state, number) WHERE state IN ('prepared', 'in_doubt');

-- Each attempt to pay an output by a file: an output that came back and is paid again has two.
CREATE TABLE bank_payments (
    company_id TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    position   BIGINT NOT NULL, -- in the file, from 1
    part       BIGINT NOT NULL, -- which debit of the account pays for it
    output_id  TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    state      TEXT   NOT NULL, -- ordered, paid, rejected, returned
    reason     TEXT   NOT NULL,
    fee        BIGINT NOT NULL, -- what the bank kept of it or took for it
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, file_id, position)
);
CREATE INDEX bank_payments_of_output ON bank_payments (company_id, output_id);

-- What a bank asks to be put right before the next payment.
CREATE TABLE bank_changes (
    company_id TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    position   BIGINT NOT NULL,
    code       TEXT   NOT NULL,
    sealed     TEXT   NOT NULL, -- what it should be instead
    noted_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, file_id, position, code)
);

-- Every file that a bank sent, by what is in it: the same one twice is read once.
CREATE TABLE bank_answers (
    checksum TEXT   NOT NULL PRIMARY KEY,
    name     TEXT   NOT NULL,
    kind     TEXT   NOT NULL, -- what it was, '' when nobody can read it
    facts    BIGINT NOT NULL, -- what it said of payments of ours
    problems TEXT   NOT NULL, -- JSON: what a person should look at
    settled  BOOLEAN NOT NULL, -- false while it waits for what the bank says elsewhere
    read_at  BIGINT NOT NULL
);
