-- +goose Up

-- Who is signed in, found by the digest of what the cookie holds. company_id is the one that the person acts for, '' until
-- they chose one; what they may do there their membership says, at each request.
CREATE TABLE sessions (
    digest       TEXT   NOT NULL,
    session_id   TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    company_id   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_by_age ON sessions (created_at);

-- How often a password was tried of late: for an account, and from an address. throttle is a digest of either, so the table
-- tells neither who was tried nor from where.
CREATE TABLE sign_in_attempts (
    throttle TEXT   NOT NULL,
    since_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (throttle)
);
CREATE INDEX sign_in_attempts_by_age ON sign_in_attempts (since_at);
