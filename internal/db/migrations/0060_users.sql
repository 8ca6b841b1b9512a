-- +goose Up

-- Two companies may each keep a record of a person with one email address, and neither learns of the other. Only
-- sign_in_key is unique: the address by which somebody signs in, '' for a user whom a company created and who never signed
-- in. company_id is the company that created the user, '' for those who came by themselves.
ALTER TABLE users ADD COLUMN sign_in_key TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN company_id TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN kyc_status TEXT NOT NULL DEFAULT 'not_started';
UPDATE users SET sign_in_key = email_key;
DROP INDEX users_by_email;
CREATE UNIQUE INDEX users_by_sign_in ON users (sign_in_key) WHERE sign_in_key <> '';

-- The users that a company created, and so may act for. email_key is the address it created them with: within a company
-- it names one person.
CREATE TABLE company_users (
    company_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    email_key  TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, user_id)
);
CREATE UNIQUE INDEX company_users_by_email ON company_users (company_id, email_key);
