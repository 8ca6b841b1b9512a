-- +goose Up

-- What a link in a mail may do, once: open an account with the address it went to, or set its password anew. Found by the
-- digest of the token in the link; the row goes when it is used. email_key is the form in which addresses are compared.
CREATE TABLE account_links (
    digest     TEXT   NOT NULL,
    purpose    TEXT   NOT NULL CHECK (purpose IN ('sign_up', 'reset')),
    email      TEXT   NOT NULL,
    email_key  TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX account_links_of_address ON account_links (email_key);
CREATE INDEX account_links_by_end ON account_links (expires_at);
