-- +goose Up

-- The schema, for SQLite and PostgreSQL.
--
-- Conventions:
--   company_id   comes first in every key and index, so that rows can be distributed by company. A table that is read
--                across companies says why: "Shared".
--   Writer       is the one package whose code inserts, updates and deletes rows of the table.
--   Times        are microseconds since 1970-01-01 UTC, dates are text such as 2026-01-31. 0 and '' mean none.
--   Amounts      are in minor units of their asset (cents, satoshis).
--   version      counts changes of a row. An update names the version it read, and fails if another one was faster.
--   *_key        is a value normalized for comparison, digest the SHA-256 of a secret, sealed an encrypted value.
--
-- Until the first release this file is edited in place. Afterwards migrations are only added (see CONTRIBUTING.md).


-- =======
-- Service
-- =======

-- Values of the service itself, by name: the clock offset of a sandbox, the network the data belongs to,
-- webhook positions.
-- Shared: belongs to the service, not to a company.
-- Writer: internal/db
CREATE TABLE settings (
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key)
);

-- Which process runs a periodic task, and until when its claim on it is valid.
-- Shared: belongs to the service, not to a company.
-- Writer: internal/job
CREATE TABLE leases (
    name   TEXT   NOT NULL,
    holder TEXT   NOT NULL,
    until  BIGINT NOT NULL, -- time
    PRIMARY KEY (name)
);

-- Jobs: work that a transaction requests and that is done outside of it. That transaction inserts the job; the one
-- that does the work deletes it.
-- Shared: workers select due jobs of all companies.
-- Writer: internal/job
CREATE TABLE jobs (
    company_id TEXT    NOT NULL,
    job_id     TEXT    NOT NULL,
    kind       TEXT    NOT NULL, -- which handler runs it
    payload    TEXT    NOT NULL, -- JSON for the handler
    run_at     BIGINT  NOT NULL, -- earliest time at which the job runs
    attempt    BIGINT  NOT NULL DEFAULT 0, -- attempts so far
    dead_at    BIGINT  NOT NULL DEFAULT 0, -- time at which the job failed too often; then only staff can retry it; 0 before
    last_error TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (company_id, job_id)
);
-- The runner claims the due jobs of a kind, of all companies.
CREATE INDEX jobs_due ON jobs (kind, run_at) WHERE dead_at = 0;

-- Stored responses by Idempotency-Key, so that a repeated request has one effect and gets the same response.
-- Shared: keyed by the credential that sent the key; the response is replayed before the company is known.
-- Writer: internal/httpapi
CREATE TABLE idempotency (
    principal   TEXT   NOT NULL, -- ID of the credential
    route       TEXT   NOT NULL,
    key         TEXT   NOT NULL,
    fingerprint TEXT   NOT NULL, -- digest of the request body
    response    TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (principal, route, key)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

-- State changes of objects, one row per version. Rows are only added.
-- Writer: internal/db
CREATE TABLE history (
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    from_state TEXT   NOT NULL,
    to_state   TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    PRIMARY KEY (company_id, object_id, version)
);

-- Forms that people submitted: who, from where, how, and with which outcome. company_id is '' for people without a company
-- and for staff.
-- Shared: the networks from which a person signs in belong to the person, and rows are deleted by age.
-- Writer: internal/securitylog
CREATE TABLE security_events (
    company_id TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    event_id   TEXT   NOT NULL,
    category   TEXT   NOT NULL,
    action     TEXT   NOT NULL,
    path       TEXT   NOT NULL,
    user_id    TEXT   NOT NULL, -- '' for staff
    staff_id   TEXT   NOT NULL, -- '' for members
    outcome    TEXT   NOT NULL, -- error code, '' for success
    address    TEXT   NOT NULL,
    network    TEXT   NOT NULL, -- the address as rate limits count it
    agent      TEXT   NOT NULL,
    PRIMARY KEY (company_id, at, event_id)
);
CREATE INDEX security_events_by_user ON security_events (user_id, network, at);
CREATE INDEX security_events_by_time ON security_events (at);

-- API requests of the last 30 days, as a company sees them: path, body and response without secrets and personal data.
-- Writer: internal/requestlog
CREATE TABLE requests (
    company_id      TEXT    NOT NULL,
    at              BIGINT  NOT NULL,
    id              TEXT    NOT NULL,
    request_id      TEXT    NOT NULL,
    method          TEXT    NOT NULL,
    route           TEXT    NOT NULL,
    path            TEXT    NOT NULL,
    status          BIGINT  NOT NULL,
    code            TEXT    NOT NULL,
    app_id          TEXT    NOT NULL,
    credential      TEXT    NOT NULL,
    took            BIGINT  NOT NULL, -- microseconds
    idempotency_key TEXT    NOT NULL,
    replayed        BOOLEAN NOT NULL,
    body            TEXT    NOT NULL,
    answer          TEXT    NOT NULL, -- response body
    PRIMARY KEY (company_id, at, id)
);
CREATE INDEX requests_by_request_id ON requests (company_id, request_id);


-- ======
-- Ledger
-- ======

-- Double-entry journals. Rows are only added. A source is booked at most once per purpose.
-- Writer: internal/ledger
CREATE TABLE ledger_journals (
    company_id  TEXT   NOT NULL,
    journal_id  TEXT   NOT NULL,
    -- The business fact.
    source_type TEXT   NOT NULL,
    source_id   TEXT   NOT NULL,
    purpose     TEXT   NOT NULL,

    booked_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, journal_id)
);
CREATE UNIQUE INDEX ledger_journals_source ON ledger_journals (company_id, source_type, source_id, purpose);

-- The lines of the journals. The lines of a journal sum to 0 per asset.
-- Writer: internal/ledger
CREATE TABLE ledger_lines (
    company_id TEXT   NOT NULL,
    journal_id TEXT   NOT NULL,
    line       BIGINT NOT NULL,
    code       TEXT   NOT NULL, -- account number
    dim        TEXT   NOT NULL, -- subaccount, for example a payroll
    asset      TEXT   NOT NULL,
    -- minor units; debit positive, credit negative
    amount     BIGINT NOT NULL CHECK (amount > -9223372036854775807 AND amount <= 9223372036854775807),
    -- Accounts with a balance: the number of the line within its account, from 1, and the balance with it. 0 for others.
    entry      BIGINT NOT NULL,
    balance    BIGINT NOT NULL,
    PRIMARY KEY (company_id, journal_id, line)
);
CREATE INDEX ledger_lines_account ON ledger_lines (company_id, code, dim, asset, entry);
-- Lines of receivables from companies. They are few, and read before a company withdraws money.
CREATE INDEX ledger_lines_debts ON ledger_lines (company_id, asset) WHERE code = '1300';

-- Balances of the accounts that must not be overdrawn. The CHECK is the last of several guards; its upper bound keeps
-- SQLite from turning an overflow into a float.
-- Writer: internal/ledger
CREATE TABLE ledger_balances (
    company_id TEXT   NOT NULL,
    code       TEXT   NOT NULL,
    dim        TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    balance    BIGINT NOT NULL CONSTRAINT ledger_no_overdraft CHECK (balance >= 0 AND balance <= 9223372036854775807),
    entries    BIGINT NOT NULL, -- number of the account's lines
    PRIMARY KEY (company_id, code, dim, asset)
);

-- Accounts that are frozen because their balance is not the sum of their lines. Nothing is posted to them, and no
-- payout of their asset is sent.
-- Writer: internal/ledger
CREATE TABLE ledger_differences (
    company_id TEXT   NOT NULL,
    code       TEXT   NOT NULL,
    dim        TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    balance    BIGINT NOT NULL, -- the stored balance when the difference was found
    lines      BIGINT NOT NULL, -- the sum of the lines then
    found_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, code, dim, asset)
);

-- The operator's available balance of each asset: credits less debits of its equity, revenue and expense
-- accounts (3000 and above) over all companies, less what is at exchanges (1040). Changes not yet added are in
-- operator_movements.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/ledger
CREATE TABLE operator_balances (
    asset   TEXT   NOT NULL,
    balance BIGINT NOT NULL,
    PRIMARY KEY (asset)
);

-- Changes of the operator's balances that are not in operator_balances yet. They are only inserted, so that concurrent
-- payrolls do not wait for one row, until a transaction needs the balance and adds them up.
-- Shared: the operator's balance is the sum over all companies.
-- Writer: internal/ledger
CREATE TABLE operator_movements (
    company_id TEXT   NOT NULL,
    journal_id TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (company_id, journal_id, asset)
);
CREATE INDEX operator_movements_of_asset ON operator_movements (asset);

-- Balances at the end of closed months. No journal is booked in a closed month; a row that its lines no longer add up
-- to shows that lines were changed.
-- Writer: internal/ledger
CREATE TABLE period_closings (
    company_id TEXT   NOT NULL,
    month      TEXT   NOT NULL, -- 2026-01
    code       TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    balance    BIGINT NOT NULL, -- debits less credits up to the end of the month
    closed_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, month, code, asset)
);


-- ====================
-- Identity and sign-in
-- ====================

-- Business accounts, with the terms of their contract.
-- Writer: internal/identity
CREATE TABLE companies (
    company_id     TEXT   NOT NULL,
    -- Profile.
    name           TEXT   NOT NULL,
    email          TEXT   NOT NULL,
    website        TEXT   NOT NULL,
    country        TEXT   NOT NULL,
    -- Status.
    status         TEXT   NOT NULL CHECK (status IN ('active', 'frozen', 'closed')),
    for_debt       BOOLEAN NOT NULL DEFAULT FALSE, -- frozen until its debts are paid
    kyb_status     TEXT   NOT NULL,
    -- Contract: how payrolls are funded, and fees in basis points.
    funding_method TEXT   NOT NULL,
    fee_bps        BIGINT NOT NULL CHECK (fee_bps BETWEEN 0 AND 10000),
    premium_bps    BIGINT NOT NULL CHECK (premium_bps BETWEEN 0 AND 10000),
    tolerance_bps  BIGINT NOT NULL CHECK (tolerance_bps BETWEEN 0 AND 500),
    -- The platform that created the company and is connected to it, with its fee on top; '' and 0 for none.
    platform_id      TEXT   NOT NULL DEFAULT '',
    platform_fee_bps BIGINT NOT NULL DEFAULT 0 CHECK (platform_fee_bps BETWEEN 0 AND 1000),

    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    closed_at      BIGINT NOT NULL DEFAULT 0, -- 0 until the operator closes the account
    PRIMARY KEY (company_id)
);
CREATE INDEX companies_closed ON companies (company_id, closed_at) WHERE closed_at > 0;

-- People. A person may work for several companies. Two companies may each have a user with the same email address, and
-- neither learns of the other.
-- Shared: a person may work for several companies, or for none.
-- Writer: internal/identity
CREATE TABLE users (
    user_id       TEXT    NOT NULL,
    -- The company that created the user, '' for one who signed up.
    company_id    TEXT    NOT NULL DEFAULT '',
    -- Email as entered, normalized, and for signing in: '' for a user who never signed in.
    email         TEXT    NOT NULL,
    email_key     TEXT    NOT NULL,
    sign_in_key   TEXT    NOT NULL DEFAULT '',
    -- Profile; details has phone, address and birth date, sealed.
    first_name    TEXT    NOT NULL,
    last_name     TEXT    NOT NULL,
    country       TEXT    NOT NULL,
    details       TEXT    NOT NULL,
    complete      BOOLEAN NOT NULL, -- the profile has all required fields
    kyc_status    TEXT    NOT NULL DEFAULT 'not_started',
    -- How pages and mails are written, '' for what the browser or the language prefers.
    language      TEXT    NOT NULL DEFAULT '',
    time_zone     TEXT    NOT NULL DEFAULT '',
    number_format TEXT    NOT NULL DEFAULT '',

    password_hash TEXT    NOT NULL, -- '' without a password
    version       BIGINT  NOT NULL,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    closed_at     BIGINT  NOT NULL DEFAULT 0, -- 0 until the operator closes the account
    PRIMARY KEY (user_id)
);
CREATE INDEX users_closed ON users (user_id, closed_at) WHERE closed_at > 0;
CREATE UNIQUE INDEX users_by_sign_in ON users (sign_in_key) WHERE sign_in_key <> '';

-- Users that a company created and may act for.
-- Writer: internal/identity
CREATE TABLE company_users (
    company_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    email_key  TEXT   NOT NULL, -- the address it created the user with, unique per company
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, user_id)
);
CREATE UNIQUE INDEX company_users_by_email ON company_users (company_id, email_key);

-- Users who may sign in and act for a company.
-- Shared: sign-in asks which companies a user belongs to.
-- Writer: internal/identity
CREATE TABLE members (
    company_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    role_since BIGINT NOT NULL, -- time since which the member has been an owner or administrator, or has had another role
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, user_id)
);
CREATE INDEX members_of_user ON members (user_id);

-- API applications of companies.
-- Shared: a token request names only the client.
-- Writer: internal/identity
CREATE TABLE apps (
    company_id    TEXT   NOT NULL,
    app_id        TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    client_id     TEXT   NOT NULL,
    secret_digest TEXT   NOT NULL, -- digest of the client secret
    redirect_uri  TEXT   NOT NULL,
    scopes        TEXT   NOT NULL,
    status        TEXT   NOT NULL CHECK (status IN ('active', 'disabled')),
    dpop          BOOLEAN NOT NULL DEFAULT FALSE, -- its tokens must be bound to a key of the app (RFC 9449)
    name_skeleton TEXT   NOT NULL DEFAULT '', -- the name with similar-looking characters folded, to detect imitations
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, app_id)
);
CREATE UNIQUE INDEX apps_by_client ON apps (client_id);
-- A token may be granted to another company's app, which is found by its id.
CREATE UNIQUE INDEX apps_by_id ON apps (app_id);
CREATE INDEX apps_by_skeleton ON apps (name_skeleton);

-- API keys, found by the digest of the secret.
-- Shared: found by digest before the company is known.
-- Writer: internal/identity
CREATE TABLE api_keys (
    digest       TEXT   NOT NULL,
    company_id   TEXT   NOT NULL,
    key_id       TEXT   NOT NULL,
    app_id       TEXT   NOT NULL,
    hint         TEXT   NOT NULL, -- last characters of the secret, for display
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE UNIQUE INDEX api_keys_of_company ON api_keys (company_id, key_id);

-- Consents of users to apps. Its tokens are valid until it is revoked or expires.
-- Shared: a user sees and revokes their consents for all companies.
-- Writer: internal/identity
CREATE TABLE app_grants (
    company_id TEXT   NOT NULL, -- the company that the app may act for, '' for the user alone
    grant_id   TEXT   NOT NULL,
    app_id     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL, -- '' for a platform that created the company
    scopes     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, grant_id)
);
CREATE INDEX app_grants_of_user ON app_grants (user_id, app_id);
CREATE INDEX app_grants_of_app ON app_grants (app_id, company_id);

-- Companies that platforms created through their apps. A row is kept after the company disconnects the platform.
-- Shared: a platform lists its companies.
-- Writer: internal/platform
CREATE TABLE platform_companies (
    company_id  TEXT   NOT NULL,
    platform_id TEXT   NOT NULL, -- the company that owns the app
    app_id      TEXT   NOT NULL,
    grant_id    TEXT   NOT NULL, -- consent by which the app acts for the company
    external_id TEXT   NOT NULL, -- the platform's own reference, '' for none
    return_url  TEXT   NOT NULL, -- where the onboarding pages return to, '' for none
    state       TEXT   NOT NULL CHECK (state IN ('connected', 'disconnected')),
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL, -- 0 while it is connected
    PRIMARY KEY (company_id)
);
CREATE INDEX platform_companies_of_app ON platform_companies (app_id, created_at, company_id);
CREATE UNIQUE INDEX platform_companies_external ON platform_companies (app_id, external_id) WHERE external_id <> '';

-- Links to the onboarding pages of a company.
-- Shared: found by digest before the company is known.
-- Writer: internal/platform
CREATE TABLE onboarding_links (
    digest     TEXT   NOT NULL,
    company_id TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX onboarding_links_by_expiry ON onboarding_links (expires_at);

-- OAuth access tokens, found by the digest of the secret.
-- Shared: found by digest before the company is known.
-- Writer: internal/identity
CREATE TABLE access_tokens (
    digest       TEXT   NOT NULL,
    company_id   TEXT   NOT NULL, -- the company the user granted access for
    token_id     TEXT   NOT NULL,
    grant_id     TEXT   NOT NULL, -- consent that it belongs to
    app_id       TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    proof_key    TEXT   NOT NULL DEFAULT '', -- thumbprint of the key that it is bound to, '' for none
    proven_at    BIGINT NOT NULL DEFAULT 0, -- when its person last presented a second factor, 0 for never
    expires_at   BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE UNIQUE INDEX access_tokens_of_company ON access_tokens (company_id, token_id);
CREATE INDEX access_tokens_of_grant ON access_tokens (company_id, grant_id);
CREATE INDEX access_tokens_by_expiry ON access_tokens (expires_at);

-- OAuth refresh tokens, found by the digest of the secret. Each is used once. Used ones are kept until they expire, to
-- detect a second use.
-- Shared: found by digest before the company is known.
-- Writer: internal/oauth
CREATE TABLE refresh_tokens (
    digest     TEXT   NOT NULL,
    company_id TEXT   NOT NULL,
    grant_id   TEXT   NOT NULL,
    proof_key  TEXT   NOT NULL DEFAULT '', -- thumbprint of the key that it was issued for, '' for none
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX refresh_tokens_by_expiry ON refresh_tokens (expires_at);

-- Authorization requests that apps sent before they redirected a user (RFC 9126).
-- Shared: found by digest.
-- Writer: internal/oauth
CREATE TABLE pushed_requests (
    digest     TEXT   NOT NULL, -- of the request_uri
    client_id  TEXT   NOT NULL,
    params     TEXT   NOT NULL, -- query string
    expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);

-- Sign-ins of devices that have no browser (RFC 8628).
-- Shared: found by digest before the company is known.
-- Writer: internal/oauth
CREATE TABLE device_codes (
    digest        TEXT   NOT NULL, -- of the device code
    user_digest   TEXT   NOT NULL, -- of the code that a person types
    app_id        TEXT   NOT NULL,
    scopes        TEXT   NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('pending', 'allowed', 'denied', 'used')),
    company_id    TEXT   NOT NULL, -- for which the person allowed it, '' for the person alone or before
    user_id       TEXT   NOT NULL, -- who answered, '' before
    poll_seconds  BIGINT NOT NULL, -- how long the device must wait between two polls
    polled_at     BIGINT NOT NULL, -- 0 before the first poll
    grant_id      TEXT   NOT NULL, -- set when it is used
    expires_at    BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE UNIQUE INDEX device_codes_by_user_code ON device_codes (user_digest);

-- OAuth authorization codes between consent and exchange.
-- Shared: found by digest before the company is known.
-- Writer: internal/oauth
CREATE TABLE authorization_codes (
    digest     TEXT   NOT NULL,
    company_id TEXT   NOT NULL, -- the company the user granted access for, '' for the user alone
    app_id     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    scopes     TEXT   NOT NULL,
    challenge  TEXT   NOT NULL, -- PKCE challenge, '' for none
    proof_key  TEXT   NOT NULL DEFAULT '', -- thumbprint of the key that must exchange it, '' for any
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    grant_id   TEXT   NOT NULL, -- consent recorded by the first exchange, which a second exchange revokes
    created_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);

-- Signed-in users, found by the digest of the cookie. What the user may do is read from members at each request.
-- Shared: a user signs in, whichever company they act for.
-- Writer: internal/auth/session
CREATE TABLE sessions (
    digest        TEXT    NOT NULL,
    session_id    TEXT    NOT NULL,
    user_id       TEXT    NOT NULL,
    company_id    TEXT    NOT NULL, -- the company the user acts for, '' before one is chosen
    last_used_at  BIGINT  NOT NULL,
    factor_at     BIGINT  NOT NULL DEFAULT 0, -- when a second factor was last verified
    -- the password was right, the second factor is still missing; the session has no rights yet
    awaits_factor BOOLEAN NOT NULL DEFAULT FALSE,
    -- the company whose OpenID provider authenticated the user, '' after another kind of sign-in
    sso_company_id TEXT   NOT NULL DEFAULT '',
    -- a form that was posted without the second factor it requires, encrypted; '' if none
    kept_form     TEXT    NOT NULL DEFAULT '',
    kept_at       BIGINT  NOT NULL DEFAULT 0, -- when the form was stored
    created_at    BIGINT  NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_by_age ON sessions (created_at);

-- OpenID providers of companies (single sign-on).
-- Writer: internal/auth/sso
CREATE TABLE sso_connections (
    company_id    TEXT    NOT NULL,
    issuer        TEXT    NOT NULL,
    client_id     TEXT    NOT NULL,
    client_secret TEXT    NOT NULL, -- encrypted
    enforced      BOOLEAN NOT NULL, -- members with an address in a verified domain cannot sign in in another way
    updated_at    BIGINT  NOT NULL,
    created_at    BIGINT  NOT NULL,
    PRIMARY KEY (company_id)
);

-- Email domains that companies bind to their OpenID providers.
-- Shared: a person who signs in is found by the domain before the company is known.
-- Writer: internal/auth/sso
CREATE TABLE sso_domains (
    company_id  TEXT   NOT NULL,
    domain      TEXT   NOT NULL, -- in lower case
    verified_at BIGINT NOT NULL, -- when the company proved by a DNS record that the domain is its own, 0 before
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, domain)
);
-- A domain belongs to the one company that proved it.
CREATE UNIQUE INDEX sso_domains_verified ON sso_domains (domain) WHERE verified_at > 0;

-- Accounts at the OpenID provider of a company, as they first signed in.
-- Writer: internal/auth/sso
CREATE TABLE sso_identities (
    company_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    subject    TEXT   NOT NULL, -- the provider's ID of the account
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, user_id)
);
CREATE UNIQUE INDEX sso_identities_by_subject ON sso_identities (company_id, subject);

-- Sign-ins that wait for the answer of an OpenID provider, or for the code of a member of staff after it. Each is used
-- once, and is found by the digest of the cookie.
-- Shared: also has those of staff.
-- Writer: internal/auth/sso
CREATE TABLE sso_attempts (
    digest     TEXT   NOT NULL,
    company_id TEXT   NOT NULL, -- '' for staff
    subject    TEXT   NOT NULL, -- member of staff whom the provider authenticated, with the provider's ID; '' before
    next_path  TEXT   NOT NULL, -- the page to continue with
    created_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX sso_attempts_by_age ON sso_attempts (created_at);

-- Recent sign-in attempts per account and per network address. throttle is a digest of either.
-- Shared: counted before the user is known.
-- Writer: internal/auth/session
CREATE TABLE sign_in_attempts (
    throttle TEXT   NOT NULL,
    since_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (throttle)
);
CREATE INDEX sign_in_attempts_by_age ON sign_in_attempts (since_at);

-- Links sent by mail that open an account or set a new password. The row is deleted when the link is used.
-- Shared: found by digest; the user may not exist yet.
-- Writer: internal/auth
CREATE TABLE email_tokens (
    digest     TEXT   NOT NULL, -- digest of the token in the link
    purpose    TEXT   NOT NULL CHECK (purpose IN ('sign_up', 'reset')),
    email      TEXT   NOT NULL,
    email_key  TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX email_tokens_by_address ON email_tokens (email_key);
CREATE INDEX email_tokens_by_expiry ON email_tokens (expires_at);

-- Requested changes of the email addresses with which people sign in. Both addresses confirm a change by a link.
-- Shared: an account belongs to a person and not to a company.
-- Writer: internal/auth
CREATE TABLE email_changes (
    user_id    TEXT    NOT NULL,
    old_email  TEXT    NOT NULL,
    new_email  TEXT    NOT NULL,
    old_digest TEXT    NOT NULL, -- digests of the tokens in the links
    new_digest TEXT    NOT NULL,
    old_done   BOOLEAN NOT NULL, -- the link was opened
    new_done   BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    PRIMARY KEY (user_id)
);
CREATE UNIQUE INDEX email_changes_by_old ON email_changes (old_digest);
CREATE UNIQUE INDEX email_changes_by_new ON email_changes (new_digest);

-- Authenticator apps (TOTP) of users.
-- Shared: belongs to a user, whichever company they act for.
-- Writer: internal/auth
CREATE TABLE second_factors (
    user_id      TEXT   NOT NULL,
    secret       TEXT   NOT NULL, -- sealed
    last_step    BIGINT NOT NULL, -- time step of the last accepted code, so that no code is accepted twice
    confirmed_at BIGINT NOT NULL, -- time of the first correct code; 0 before
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (user_id)
);

-- Versions of the operator's legal texts that users accepted.
-- Shared: belongs to a user, whichever company they act for.
-- Writer: internal/legal
CREATE TABLE accepted_terms (
    user_id     TEXT   NOT NULL,
    document    TEXT   NOT NULL, -- terms or privacy
    version     TEXT   NOT NULL,
    accepted_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, document, version)
);

-- One-time codes for users who lost their authenticator.
-- Shared: belongs to a user, whichever company they act for.
-- Writer: internal/auth
CREATE TABLE recovery_codes (
    user_id TEXT   NOT NULL,
    digest  TEXT   NOT NULL,
    used_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, digest)
);

-- Public keys of users' passkeys.
-- Shared: belongs to a user, whichever company they act for.
-- Writer: internal/auth
CREATE TABLE passkeys (
    user_id       TEXT   NOT NULL,
    passkey_id    TEXT   NOT NULL,
    credential_id TEXT   NOT NULL, -- ID that the device gave the key
    name          TEXT   NOT NULL,
    data          TEXT   NOT NULL, -- JSON of the WebAuthn library
    last_used_at  BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (user_id, passkey_id)
);
CREATE UNIQUE INDEX passkeys_by_credential ON passkeys (credential_id);

-- WebAuthn challenges that wait for an answer. A challenge is deleted when it is answered.
-- Shared: found by digest before the user is known.
-- Writer: internal/auth
CREATE TABLE passkey_challenges (
    digest     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL, -- '' if any user may sign in
    data       TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX passkey_challenges_by_end ON passkey_challenges (expires_at);

-- Invitations to act for a company. The row is deleted when it is accepted or withdrawn.
-- Shared: the link in a mail has only the token.
-- Writer: internal/auth
CREATE TABLE member_invitations (
    company_id    TEXT   NOT NULL,
    invitation_id TEXT   NOT NULL,
    digest        TEXT   NOT NULL, -- digest of the token in the link
    email         TEXT   NOT NULL,
    email_key     TEXT   NOT NULL,
    role          TEXT   NOT NULL,
    invited_by    TEXT   NOT NULL,
    expires_at    BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, invitation_id)
);
CREATE UNIQUE INDEX member_invitations_by_digest ON member_invitations (digest);

-- Notifications of the members of a company, as the pages list them. Kept for 90 days.
-- Shared: a worker deletes old ones of all companies.
-- Writer: internal/notification
CREATE TABLE notifications (
    company_id      TEXT   NOT NULL,
    user_id         TEXT   NOT NULL,
    notification_id TEXT   NOT NULL,
    kind            TEXT   NOT NULL CHECK (kind IN ('approval_needed', 'quote_ending', 'payroll_funded', 'payroll_paid',
                                                    'payment_returned', 'deposit_held', 'verification')),
    object_id       TEXT   NOT NULL, -- payroll, withdrawal, claim, wallet or company
    about           TEXT   NOT NULL, -- payroll, withdrawal or refund to approve, deposit, or event
    amount          BIGINT NOT NULL, -- in the smallest unit of currency, 0 if that is ''
    currency        TEXT   NOT NULL,
    detail          TEXT   NOT NULL, -- state of the verification, or ''
    created_at      BIGINT NOT NULL,
    read_at         BIGINT NOT NULL, -- 0 before
    PRIMARY KEY (company_id, user_id, notification_id)
);
CREATE INDEX notifications_unread ON notifications (company_id, user_id) WHERE read_at = 0;
CREATE INDEX notifications_about ON notifications (company_id, about) WHERE read_at = 0;
CREATE INDEX notifications_by_time ON notifications (created_at);

-- Kinds of notifications that a person does not want by mail.
-- Shared: a person has one choice for all their companies.
-- Writer: internal/notification
CREATE TABLE unmailed_notifications (
    user_id TEXT NOT NULL,
    kind    TEXT NOT NULL,
    PRIMARY KEY (user_id, kind)
);

-- Filters of lists, and drafts of payrolls, that members saved. Each member sees only their own.
-- Writer: internal/auth
CREATE TABLE saved_searches (
    company_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    list       TEXT   NOT NULL, -- path of the list
    name       TEXT   NOT NULL,
    query      TEXT   NOT NULL, -- URL query of the filter, or the values of the form of a draft
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, user_id, list, name)
);


-- =====================================
-- Verification (KYC, KYB) and screening
-- =====================================

-- Everyone whose documents are stored: a user, a beneficial owner, or a company. Each has an encryption key of its
-- own; without it nothing of the subject can be read, in backups either.
-- Shared: a person's documents belong to the person, not to the companies that pay them.
-- Writer: internal/kyc
CREATE TABLE subjects (
    subject_id  TEXT   NOT NULL,
    wrapped_key TEXT   NOT NULL, -- sealed with the service's key, '' once erased
    files       BIGINT NOT NULL CHECK (files >= 0), -- current documents
    bytes       BIGINT NOT NULL CHECK (bytes >= 0), -- size of all stored documents
    erased_at   BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (subject_id)
);

-- Legal holds: while a person or a company has one, nothing about them is erased.
-- Shared: a person's documents belong to the person, not to the companies that pay them.
-- Writer: internal/kyc
CREATE TABLE legal_holds (
    subject_id TEXT   NOT NULL,
    placed_by  TEXT   NOT NULL, -- name of the member of staff
    reason     TEXT   NOT NULL,
    placed_at  BIGINT NOT NULL,
    PRIMARY KEY (subject_id)
);

-- Identity documents and company documents. A new one replaces the earlier one of the same kind, side and country,
-- which stays until the verification is decided.
-- Shared: a person's documents belong to the person, not to the companies that pay them.
-- Writer: internal/kyc
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
CREATE UNIQUE INDEX documents_current ON documents (subject_id, doc_type, category, issuing_country)
    WHERE state = 'current';

-- The content of documents, in chunks sealed with the subject's key.
-- Shared: a person's documents belong to the person, not to the companies that pay them.
-- Writer: internal/kyc
CREATE TABLE document_chunks (
    subject_id  TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    n           BIGINT NOT NULL,
    sealed      BYTEA  NOT NULL,
    PRIMARY KEY (subject_id, document_id, n)
);

-- Tax ids, one per country, sealed with the subject's key.
-- Shared: a person's documents belong to the person, not to the companies that pay them.
-- Writer: internal/kyc
CREATE TABLE tax_ids (
    subject_id      TEXT   NOT NULL,
    issuing_country TEXT   NOT NULL,
    tax_id_type     TEXT   NOT NULL,
    sealed          BYTEA  NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (subject_id, issuing_country)
);

-- Tax forms (W-9, W-8BEN) that users, and recipients at a link, certified, sealed with the subject's key. The newest one
-- of a person counts.
-- Shared: a person's tax form belongs to the person, not to the companies that pay them.
-- Writer: internal/kyc
CREATE TABLE tax_forms (
    subject_id TEXT   NOT NULL,
    form_id    TEXT   NOT NULL,
    form       TEXT   NOT NULL CHECK (form IN ('w9', 'w8ben')),
    sealed     BYTEA  NOT NULL,
    signed_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL, -- 0 for never
    PRIMARY KEY (subject_id, form_id)
);

-- Attempts to verify a subject: a user (person), a beneficial owner (owner), or a company.
-- Shared: a person is verified once, not to the companies that pay them.
-- Writer: internal/kyc
CREATE TABLE verifications (
    subject_id   TEXT    NOT NULL,
    case_id      TEXT    NOT NULL,
    company_id   TEXT    NOT NULL, -- the company that is notified
    kind         TEXT    NOT NULL CHECK (kind IN ('person', 'owner', 'company')),
    state        TEXT    NOT NULL,
    provider     TEXT    NOT NULL,
    provider_ref TEXT    NOT NULL,
    reasons      TEXT    NOT NULL,
    is_current   BOOLEAN NOT NULL, -- the subject's last attempt
    expires_at   BIGINT  NOT NULL, -- 0 unless approved
    version      BIGINT  NOT NULL,
    created_at   BIGINT  NOT NULL,
    updated_at   BIGINT  NOT NULL,
    PRIMARY KEY (subject_id, case_id)
);
CREATE UNIQUE INDEX verifications_current ON verifications (subject_id) WHERE is_current = TRUE;
CREATE INDEX verifications_by_ref ON verifications (provider, provider_ref) WHERE provider_ref <> '';
CREATE INDEX verifications_expiring ON verifications (expires_at) WHERE state = 'approved';

-- Callbacks already received from verification providers. A repeated callback has no effect.
-- Shared: a provider names its own cases, not companies.
-- Writer: internal/kyc
CREATE TABLE provider_callbacks (
    provider    TEXT   NOT NULL,
    callback_id TEXT   NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (provider, callback_id)
);

-- Data about a company to verify, sealed with its subject key.
-- Writer: internal/kyc
CREATE TABLE company_profiles (
    company_id TEXT   NOT NULL,
    sealed     BYTEA  NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- Beneficial owners of companies. sealed has name, birth date and address, with the owner's subject key.
-- Writer: internal/kyc
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

-- Matches between a sanctions list and a payee or company, and what staff decided about them. Only the list's side is
-- stored in plain text; a decision is valid until the matched name or address changes.
-- Writer: internal/screening
CREATE TABLE screening_hits (
    company_id TEXT   NOT NULL,
    hit_id     TEXT   NOT NULL,
    subject_id TEXT   NOT NULL, -- recipient, user or company
    kind       TEXT   NOT NULL CHECK (kind IN ('name', 'address')),
    matched    TEXT   NOT NULL, -- digest of the normalized name, or the address
    entry_id   TEXT   NOT NULL, -- list and number of the entry
    entry_name TEXT   NOT NULL,
    programs   TEXT   NOT NULL,
    score      BIGINT NOT NULL, -- 1 to 100
    state      TEXT   NOT NULL CHECK (state IN ('open', 'cleared', 'confirmed')),
    reason     TEXT   NOT NULL, -- reason of the decision
    decided_by TEXT   NOT NULL,
    decided_at BIGINT NOT NULL, -- 0 while open
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, hit_id)
);
-- One decision per subject, matched value and entry.
CREATE UNIQUE INDEX screening_hits_once ON screening_hits (company_id, subject_id, kind, matched, entry_id);
-- The subjects that are blocked by a match.
CREATE INDEX screening_hits_blocking ON screening_hits (company_id, subject_id) WHERE state <> 'cleared';


-- ======
-- Payees
-- ======

-- Metadata of payrolls, payments, recipients, invoices, claims and payment links, by which they are found. Each row is one key; the
-- object's own row has all of them.
-- Shared: belongs to a company or, for invoices, to a user.
-- Writer: internal/metadata
CREATE TABLE metadata_values (
    owner_id  TEXT NOT NULL, -- company or user
    object_id TEXT NOT NULL,
    name      TEXT NOT NULL, -- the key
    value     TEXT NOT NULL,
    PRIMARY KEY (owner_id, object_id, name)
);
CREATE INDEX metadata_values_by_value ON metadata_values (owner_id, name, value, object_id);

-- Everyone a company pays. A worker with a login has the user's id as recipient_id, and copies of name, email and
-- country that follow the user's profile.
-- Shared: a user asks which companies pay them.
-- Writer: internal/payee
CREATE TABLE recipients (
    company_id      TEXT    NOT NULL,
    recipient_id    TEXT    NOT NULL,
    relationship_id TEXT    NOT NULL,
    user_id         TEXT    NOT NULL, -- '' for a recipient without a login
    recipient_type  TEXT    NOT NULL CHECK (recipient_type IN ('user', 'company')),
    role            TEXT    NOT NULL CHECK (role IN ('contractor', 'employee', 'vendor')),
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'active', 'inactive')),
    -- Profile; *_key is normalized for search and sorting; details has phone, address and birth date, sealed.
    name            TEXT    NOT NULL,
    name_key        TEXT    NOT NULL,
    first_name      TEXT    NOT NULL,
    last_name       TEXT    NOT NULL,
    email           TEXT    NOT NULL,
    email_key       TEXT    NOT NULL,
    country         TEXT    NOT NULL,
    external_id     TEXT    NOT NULL,
    department      TEXT    NOT NULL,
    vendor_type     TEXT    NOT NULL,
    details         TEXT    NOT NULL,
    onboarded       BOOLEAN NOT NULL,

    metadata        TEXT    NOT NULL DEFAULT '', -- JSON object, '' for none
    version         BIGINT  NOT NULL,
    created_at      BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    PRIMARY KEY (company_id, recipient_id)
);
CREATE UNIQUE INDEX recipients_by_external_id ON recipients (company_id, external_id) WHERE external_id <> '';
-- The orders of lists. Each index has all columns by which lists filter and search, so that a page is found without
-- reading the table.
CREATE INDEX recipients_by_created ON recipients (company_id, created_at, recipient_id, country, role, recipient_type, status, name_key, email_key);
CREATE INDEX recipients_by_name ON recipients (company_id, name_key, recipient_id, country, role, recipient_type, status, email_key);
CREATE INDEX recipients_by_email ON recipients (company_id, email_key, recipient_id, country, role, recipient_type, status, name_key);
-- Lookup of the recipients that a row of recipient_counts counts.
CREATE INDEX recipients_by_segment ON recipients (company_id, country, role, recipient_type, status);
-- Workers with a login, in the order of their list.
CREATE INDEX recipients_with_login ON recipients (company_id, created_at, recipient_id) WHERE user_id <> '';
-- Lookup of the companies that pay a user.
CREATE INDEX recipients_of_user ON recipients (user_id) WHERE user_id <> '';
-- Lookup of the recipients whose relationship may have ended.
CREATE INDEX recipients_inactive ON recipients (recipient_id, updated_at) WHERE status = 'inactive';

-- How many recipients of a company have the same country, role, type and status, and whether they have a login: the
-- totals of filtered lists.
-- Writer: internal/payee
CREATE TABLE recipient_counts (
    company_id     TEXT    NOT NULL,
    country        TEXT    NOT NULL,
    role           TEXT    NOT NULL,
    recipient_type TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    has_login      BOOLEAN NOT NULL,
    recipients     BIGINT  NOT NULL CHECK (recipients >= 0),
    PRIMARY KEY (company_id, country, role, recipient_type, status, has_login)
);

-- Invitations of workers to a company.
-- Shared: the link in a mail has only the token.
-- Writer: internal/payee
CREATE TABLE invitations (
    company_id    TEXT   NOT NULL,
    invitation_id TEXT   NOT NULL,
    email         TEXT   NOT NULL,
    email_key     TEXT   NOT NULL,
    role          TEXT   NOT NULL CHECK (role IN ('contractor', 'employee')),
    state         TEXT   NOT NULL CHECK (state IN ('sent', 'accepted', 'expired', 'revoked')),
    reason        TEXT   NOT NULL, -- reason of a revoked invitation
    token_digest  TEXT   NOT NULL, -- digest of the token in the last mail
    resend_count  BIGINT NOT NULL CHECK (resend_count BETWEEN 0 AND 3),
    user_id       TEXT   NOT NULL, -- '' until accepted
    sent_at       BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, invitation_id)
);
-- One open invitation per address and company.
CREATE UNIQUE INDEX invitations_open ON invitations (company_id, email_key) WHERE state = 'sent';
CREATE INDEX invitations_by_email ON invitations (company_id, email_key, created_at);
CREATE INDEX invitations_by_created ON invitations (company_id, created_at, invitation_id);
CREATE UNIQUE INDEX invitations_by_token ON invitations (token_digest);

-- Owners of payment destinations, one row per user or recipient. Every change of the owner's destinations first
-- changes this row, which counts them and orders concurrent changes.
-- Shared: destinations belong to the person paid, not to the companies that pay them.
-- Writer: internal/payee/destination
CREATE TABLE destination_owners (
    owner_id               TEXT   NOT NULL,
    destinations           BIGINT NOT NULL CHECK (destinations BETWEEN 0 AND 3),
    destination_changed_at BIGINT NOT NULL DEFAULT 0, -- time of the last change of the effective destination
    version                BIGINT NOT NULL,
    PRIMARY KEY (owner_id)
);

-- Payment destinations of users and recipients: blockchain addresses and bank accounts.
-- Shared: destinations belong to the person paid, not to the companies that pay them.
-- Writer: internal/payee/destination
CREATE TABLE destinations (
    owner_id        TEXT   NOT NULL,
    destination_id  TEXT   NOT NULL,
    -- Where it pays; bank data is sealed, masked is for display.
    kind            TEXT   NOT NULL CHECK (kind IN ('crypto', 'fiat')),
    symbol          TEXT   NOT NULL,
    rail            TEXT   NOT NULL,
    scheme          TEXT   NOT NULL,
    country         TEXT   NOT NULL,
    network         TEXT   NOT NULL,
    address         TEXT   NOT NULL,
    sealed          TEXT   NOT NULL,
    masked          TEXT   NOT NULL,
    -- A correction the bank asked for before the next payment (JSON, sealed), and the company whose payment it was.
    correction      TEXT   NOT NULL DEFAULT '',
    correction_for  TEXT   NOT NULL DEFAULT '',
    -- The newest check of the bank account (JSON), '' for none.
    account_check   TEXT   NOT NULL DEFAULT '',

    -- The part of each payment: a fixed amount of payments in its currency, or a percentage of what those leave.
    allocation      BIGINT NOT NULL CHECK (allocation BETWEEN 0 AND 100),
    fixed_amount    BIGINT NOT NULL DEFAULT 0 CHECK (fixed_amount = 0 OR fixed_amount > 0 AND allocation = 0),
    fixed_currency  TEXT   NOT NULL DEFAULT '',
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (owner_id, destination_id)
);
CREATE INDEX destinations_by_address ON destinations (address) WHERE address <> '';
CREATE INDEX destinations_corrections ON destinations (correction_for, owner_id) WHERE correction_for <> '';

-- Addresses of payees' Bitcoin wallets, one per payment and destination, in the order of the wallet. An address is never
-- assigned twice, also if the wallet is entered again or by another owner.
-- Shared: a wallet belongs to the person paid, not to the companies that pay them.
-- Writer: internal/payee/destination
CREATE TABLE destination_addresses (
    wallet_id      TEXT   NOT NULL, -- digest of the public key and the script
    position       BIGINT NOT NULL,
    company_id     TEXT   NOT NULL,
    payroll_id     TEXT   NOT NULL,
    payment_id     TEXT   NOT NULL,
    destination_id TEXT   NOT NULL,
    address        TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (wallet_id, position)
);
CREATE UNIQUE INDEX destination_addresses_of_payment
    ON destination_addresses (company_id, payment_id, destination_id, wallet_id);

-- Audit log of destinations: who changed what, when. Rows are only added. The states are JSON with masked bank data.
-- Shared: destinations belong to the person paid, not to the companies that pay them.
-- Writer: internal/payee/destination
CREATE TABLE destination_changes (
    owner_id       TEXT   NOT NULL,
    change_id      TEXT   NOT NULL,
    destination_id TEXT   NOT NULL,
    action         TEXT   NOT NULL CHECK (action IN ('added', 'replaced', 'removed', 'reallocated')),
    actor_kind     TEXT   NOT NULL,
    actor_id       TEXT   NOT NULL,
    company_id     TEXT   NOT NULL,
    user_id        TEXT   NOT NULL,
    state_before   TEXT   NOT NULL,
    state_after    TEXT   NOT NULL,
    at             BIGINT NOT NULL,
    PRIMARY KEY (owner_id, change_id)
);

-- Requests of companies to payees to say where to be paid, the latest for each payee. A payee without an account answers
-- at a link.
-- Shared: a link is found by its token.
-- Writer: internal/payee/destination
CREATE TABLE destination_requests (
    company_id      TEXT   NOT NULL,
    recipient_id    TEXT   NOT NULL,
    token_digest    TEXT   NOT NULL, -- '' for a payee with an account, and once the link was used
    sent_at         BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    -- What was entered at the link, sealed, until the code from the second mail confirms it.
    draft           TEXT   NOT NULL DEFAULT '',
    code_digest     TEXT   NOT NULL DEFAULT '',
    code_expires_at BIGINT NOT NULL DEFAULT 0,
    codes           BIGINT NOT NULL DEFAULT 0, -- number of codes sent
    attempts        BIGINT NOT NULL DEFAULT 0, -- number of codes entered
    -- The link after its use, which shows the check of the account until expires_at, and the destination; '' before.
    used_digest     TEXT   NOT NULL DEFAULT '',
    used_id         TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (company_id, recipient_id)
);
CREATE UNIQUE INDEX destination_requests_used ON destination_requests (used_digest) WHERE used_digest <> '';
CREATE UNIQUE INDEX destination_requests_by_token ON destination_requests (token_digest) WHERE token_digest <> '';
CREATE INDEX destination_requests_drafts ON destination_requests (code_expires_at) WHERE draft <> '';


-- =========================
-- Prices and money received
-- =========================

-- The last accepted price of each asset in US dollars.
-- Shared: a market price is the same for everyone.
-- Writer: internal/rates
CREATE TABLE rates (
    asset       TEXT   NOT NULL,
    rate        TEXT   NOT NULL, -- dollars per whole unit, decimal
    sources     TEXT   NOT NULL, -- names of the sources that agreed on the price, comma-separated
    observed_at BIGINT NOT NULL, -- time of the oldest observation that the price is based on
    valid_to    BIGINT NOT NULL, -- time from which the price is too old for quotes
    PRIMARY KEY (asset)
);

-- Accepted prices in US dollars, at most one per asset and hour, for values of past payments. Rows are only added.
-- Shared: a market price is the same for everyone.
-- Writer: internal/rates
CREATE TABLE rate_history (
    asset TEXT   NOT NULL,
    hour  BIGINT NOT NULL, -- start of the hour of the observation
    rate  TEXT   NOT NULL, -- dollars per whole unit, decimal
    PRIMARY KEY (asset, hour)
);

-- Codes and names of the accounts of a company's monthly journal, where they differ from the defaults.
-- Writer: internal/accounting
CREATE TABLE journal_accounts (
    company_id TEXT NOT NULL,
    account    TEXT NOT NULL, -- key of the account, such as balance or fees
    code       TEXT NOT NULL,
    name       TEXT NOT NULL,
    PRIMARY KEY (company_id, account)
);

-- Prices held for an object (payroll or claim).
-- Shared: expiry asks for the due quotes of all companies.
-- Writer: internal/receivable/quote
CREATE TABLE quotes (
    company_id    TEXT   NOT NULL,
    quote_id      TEXT   NOT NULL,
    object_id     TEXT   NOT NULL,
    number        BIGINT NOT NULL, -- counts the quotes of one object and asset from 1
    state         TEXT   NOT NULL CHECK (state IN ('active', 'accepted', 'expired', 'superseded', 'cancelled')),
    valid_from    BIGINT NOT NULL,
    valid_to      BIGINT NOT NULL,
    grace         BIGINT NOT NULL CHECK (grace >= 0), -- microseconds after valid_to in which a payment still counts
    cancelled_at  BIGINT NOT NULL, -- 0 for never
    due_asset     TEXT   NOT NULL,
    due           BIGINT NOT NULL CHECK (due > 0),
    funding_asset TEXT   NOT NULL,
    funding       BIGINT NOT NULL CHECK (funding > 0),
    rate          TEXT   NOT NULL,
    address       TEXT   NOT NULL,
    network       TEXT   NOT NULL,
    confirmations BIGINT NOT NULL DEFAULT 0, -- number of required confirmations, 0 for the default by value
    version       BIGINT NOT NULL,
    PRIMARY KEY (company_id, quote_id)
);
CREATE UNIQUE INDEX quotes_number ON quotes (company_id, object_id, funding_asset, number);
-- One active quote per object and asset.
CREATE UNIQUE INDEX quotes_active ON quotes (company_id, object_id, funding_asset) WHERE state = 'active';
CREATE INDEX quotes_due ON quotes (valid_to) WHERE state = 'active';

-- Incoming blockchain and Lightning payments: one row per output that pays an address of ours.
-- Writer: internal/receivable/deposit
CREATE TABLE deposits (
    company_id         TEXT    NOT NULL,
    deposit_id         TEXT    NOT NULL,
    -- The output.
    chain              TEXT    NOT NULL,
    txid               TEXT    NOT NULL,
    vout               BIGINT  NOT NULL,
    address            TEXT    NOT NULL,
    asset              TEXT    NOT NULL,
    amount             BIGINT  NOT NULL CHECK (amount >= 0),
    -- Refund of an unexpected deposit, '' for none.
    refund_to          TEXT    NOT NULL DEFAULT '',
    refund_id          TEXT    NOT NULL DEFAULT '',

    object_id          TEXT    NOT NULL,
    quote_id           TEXT    NOT NULL, -- '' when the payment was not expected
    state              TEXT    NOT NULL CHECK (state IN ('seen', 'confirmed', 'reverted', 'replaced', 'evicted')),
    on_time            BOOLEAN NOT NULL, -- seen while its quote was in force
    dust               BOOLEAN NOT NULL,
    first_seen         BIGINT  NOT NULL,
    want_confirmations BIGINT  NOT NULL,
    replaced_by        TEXT    NOT NULL, -- txid
    -- whose balance it is credited to, '' where an object books it or staff has not decided
    owner_id           TEXT    NOT NULL DEFAULT '',
    version            BIGINT  NOT NULL,
    PRIMARY KEY (company_id, deposit_id)
);
CREATE UNIQUE INDEX deposits_outpoint ON deposits (company_id, chain, txid, vout);
CREATE INDEX deposits_object ON deposits (company_id, object_id);
-- Deposits that wait for staff to find the owner.
CREATE INDEX deposits_unknown ON deposits (company_id, state) WHERE quote_id = '';
CREATE INDEX deposits_owner ON deposits (company_id, owner_id, first_seen) WHERE owner_id <> '';
CREATE INDEX deposits_waiting ON deposits (company_id, object_id) WHERE state IN ('seen', 'reverted');

-- Invoices of a Lightning node, one per quote paid over Lightning.
-- Shared: the node names a paid invoice by its hash.
-- Writer: internal/lightning
CREATE TABLE lightning_invoices (
    company_id   TEXT   NOT NULL,
    invoice_id   TEXT   NOT NULL,
    object_id    TEXT   NOT NULL,
    quote_id     TEXT   NOT NULL,
    state        TEXT   NOT NULL CHECK (state IN ('wanted', 'open', 'ending', 'ended', 'paid')),
    amount       BIGINT NOT NULL CHECK (amount > 0), -- satoshis
    memo         TEXT   NOT NULL,
    expires_at   BIGINT NOT NULL,
    hash         TEXT   NOT NULL, -- payment hash: SHA-256 of the preimage, hexadecimal
    preimage     TEXT   NOT NULL, -- sealed; '' once the node has it
    node_id      TEXT   NOT NULL, -- '' before the node made it
    request      TEXT   NOT NULL, -- BOLT 11, '' before the node made it
    paid         BIGINT NOT NULL CHECK (paid >= 0), -- satoshis
    settle_index BIGINT NOT NULL, -- the node's count of settled invoices, 0 before
    settled_at   BIGINT NOT NULL, -- by the node's clock, 0 before
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, invoice_id)
);
CREATE INDEX lightning_invoices_object ON lightning_invoices (company_id, object_id);
CREATE UNIQUE INDEX lightning_invoices_hash ON lightning_invoices (hash);
-- The invoices that are looked up one by one while the node's count of settled invoices is unknown.
CREATE INDEX lightning_invoices_open ON lightning_invoices (state, invoice_id) WHERE state IN ('open', 'ending');

-- The number of a node's settled invoices up to which all are recorded.
-- Shared: a node serves all companies.
-- Writer: internal/lightning
CREATE TABLE lightning_cursors (
    node_id      TEXT   NOT NULL,
    settle_index BIGINT NOT NULL,
    PRIMARY KEY (node_id)
);

-- Payments over Lightning, each of one output. An output whose payment failed can get another one.
-- Shared: whichever company pays, a payment hash is paid once.
-- Writer: internal/payout/lightning
CREATE TABLE lightning_payments (
    company_id  TEXT   NOT NULL,
    payment_id  TEXT   NOT NULL,
    output_id   TEXT   NOT NULL,
    state       TEXT   NOT NULL CHECK (state IN ('prepared', 'in_doubt', 'sent', 'fulfilled', 'failed')),
    node_id     TEXT   NOT NULL, -- the node that pays
    hash        TEXT   NOT NULL, -- payment hash, hexadecimal
    request     TEXT   NOT NULL, -- BOLT 11
    expires_at  BIGINT NOT NULL, -- of the request
    amount      BIGINT NOT NULL CHECK (amount > 0), -- satoshis
    max_fee     BIGINT NOT NULL CHECK (max_fee >= 0), -- satoshis
    fee         BIGINT NOT NULL DEFAULT 0, -- satoshis, rounded up
    preimage    TEXT   NOT NULL DEFAULT '', -- proof of the payment, hexadecimal
    reason      TEXT   NOT NULL DEFAULT '', -- of a failed payment
    attempts    BIGINT NOT NULL DEFAULT 0, -- calls of the node
    doubt_until BIGINT NOT NULL DEFAULT 0, -- until then, a call whose answer was lost may still reach the node
    in_flight   BOOLEAN NOT NULL DEFAULT FALSE, -- whether the node said so when it was asked last
    declared_at BIGINT NOT NULL DEFAULT 0, -- when staff decided that it was not made, until the node says so
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, payment_id)
);
CREATE UNIQUE INDEX lightning_payments_hash ON lightning_payments (hash) WHERE state <> 'failed';
CREATE INDEX lightning_payments_output ON lightning_payments (company_id, output_id);
-- The payments that the balance of the node may not contain yet.
CREATE INDEX lightning_payments_open ON lightning_payments (node_id) WHERE state IN ('prepared', 'in_doubt');
-- The payments that staff declared not made, which the node may still report as made.
CREATE INDEX lightning_payments_declared ON lightning_payments (node_id) WHERE declared_at > 0;

-- Virtual bank accounts of users and companies.
-- Shared: belongs to a user or a company; the bank names only the account number.
-- Writer: internal/virtualaccount
CREATE TABLE funding_accounts (
    owner_id      TEXT   NOT NULL,
    account_id    TEXT   NOT NULL,
    company_id    TEXT   NOT NULL, -- the company that is notified
    currency      TEXT   NOT NULL,
    provider      TEXT   NOT NULL,
    status        TEXT   NOT NULL
        CHECK (status IN ('requested', 'terms_pending', 'pending', 'active', 'suspended', 'closed')),
    reason        TEXT   NOT NULL,
    details       TEXT   NOT NULL, -- account numbers, sealed
    number_key    TEXT   NOT NULL, -- digest of the numbers, by which a receipt finds the account
    provider_ref  TEXT   NOT NULL, -- the provider's id of the account
    cursor        TEXT   NOT NULL, -- position in the provider's list up to which receipts were read
    terms_version TEXT   NOT NULL, -- '' until accepted
    terms_at      BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (owner_id, account_id)
);
CREATE UNIQUE INDEX funding_accounts_by_currency ON funding_accounts (owner_id, currency) WHERE status <> 'closed';
CREATE UNIQUE INDEX funding_accounts_by_id ON funding_accounts (account_id);
CREATE UNIQUE INDEX funding_accounts_by_number ON funding_accounts (number_key) WHERE number_key <> '';

-- Money received on virtual accounts, once per bank reference.
-- Shared: belongs to a user or a company, like the account.
-- Writer: internal/virtualaccount
CREATE TABLE funding_receipts (
    owner_id    TEXT    NOT NULL,
    account_id  TEXT    NOT NULL,
    reference   TEXT    NOT NULL,
    receipt_id  TEXT    NOT NULL,
    currency    TEXT    NOT NULL,
    amount      BIGINT  NOT NULL CHECK (amount > 0),
    received_at BIGINT  NOT NULL,
    reversed    BOOLEAN NOT NULL DEFAULT FALSE, -- whether the provider reversed the receipt and the amount was debited
    PRIMARY KEY (owner_id, account_id, reference)
);

-- Money received for a person, on its way to the person's destinations. Its outputs have the person as company.
-- Shared: belongs to the person, not to the companies that pay them.
-- Writer: internal/income
CREATE TABLE incomes (
    user_id     TEXT   NOT NULL,
    income_id   TEXT   NOT NULL,
    company_id  TEXT   NOT NULL, -- the company that is notified, '' for none
    -- What was received.
    transfer_id TEXT   NOT NULL, -- the credit, in transfers or funding_receipts
    invoice_id  TEXT   NOT NULL, -- invoice that it pays, or ''
    payer_id    TEXT   NOT NULL, -- payer who sent it, or ''
    currency    TEXT   NOT NULL,
    amount      BIGINT NOT NULL CHECK (amount > 0),
    -- What is paid: amount = withheld + fee + the inputs of the outputs. Both are 0 until the release.
    withheld    BIGINT NOT NULL DEFAULT 0 CHECK (withheld >= 0), -- part that a reversed credit took from the balance
    fee         BIGINT NOT NULL DEFAULT 0 CHECK (fee >= 0),
    released_at BIGINT NOT NULL DEFAULT 0,

    state       TEXT   NOT NULL
        CHECK (state IN ('received', 'released', 'fulfilled', 'action_required', 'on_hold', 'returned', 'cancelled')),
    reason      TEXT   NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (user_id, income_id)
);
CREATE UNIQUE INDEX incomes_by_transfer ON incomes (user_id, transfer_id);
CREATE INDEX incomes_on_hold ON incomes (reason, updated_at) WHERE state = 'on_hold';
CREATE INDEX incomes_to_act ON incomes (reason, income_id) WHERE state = 'action_required';

-- Credits on the operator's bank accounts.
-- Shared: the bank does not state the company that a credit is for.
-- Writer: internal/bankreceipt
CREATE TABLE transfers (
    transfer_id    TEXT   NOT NULL,
    -- Content of the bank's message.
    bank_account   TEXT   NOT NULL,
    number         TEXT   NOT NULL, -- number of the virtual account that was paid, if the bank states it
    currency       TEXT   NOT NULL,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    booked_on      TEXT   NOT NULL, -- 2026-01-31
    debtor         TEXT   NOT NULL,
    debtor_account TEXT   NOT NULL,
    lines          TEXT   NOT NULL, -- remittance information, JSON
    fingerprint    TEXT   NOT NULL, -- digest of all these details
    subaccount     TEXT   NOT NULL DEFAULT '', -- subaccount of account 1020 that it is posted to
    seen           TEXT   NOT NULL, -- kinds of bank messages that reported it
    -- Owner and purpose of the credit.
    state          TEXT   NOT NULL CHECK (state IN ('suspense', 'credited', 'returned')),
    reason         TEXT   NOT NULL,
    owner_id       TEXT   NOT NULL, -- owner whose balance includes the credit, '' in suspense
    company_id     TEXT   NOT NULL DEFAULT '', -- the company that is notified, '' for none
    payer_id       TEXT   NOT NULL,
    invoice_id     TEXT   NOT NULL,
    invoice_part   BIGINT NOT NULL, -- part of the amount that is applied to the invoice
    payroll_id     TEXT   NOT NULL,
    payment        TEXT   NOT NULL DEFAULT '', -- our payment (S0000012P00003) that was returned in part, or ''

    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (transfer_id)
);
CREATE INDEX transfers_by_fingerprint ON transfers (bank_account, fingerprint);
CREATE INDEX transfers_in_suspense ON transfers (created_at) WHERE state = 'suspense';
CREATE INDEX transfers_of_amount ON transfers (bank_account, amount, booked_on);
CREATE INDEX transfers_of_payments ON transfers (payment) WHERE payment <> '';

-- The bank's references of a credit, and digests of the content of fees and interest (chg_…). The same name is the same
-- entry of the account.
-- Shared: the bank does not state the company that a credit is for.
-- Writer: internal/bankreceipt
CREATE TABLE transfer_references (
    bank_account TEXT NOT NULL,
    name         TEXT NOT NULL,
    transfer_id  TEXT NOT NULL,
    PRIMARY KEY (bank_account, name)
);

-- Statements (camt.053) of the operator's accounts, compared with ledger account 1020 by reconciliation.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/bankreceipt
CREATE TABLE bank_statements (
    number       TEXT    NOT NULL, -- number of the account
    currency     TEXT    NOT NULL,
    statement_id TEXT    NOT NULL, -- the bank's id
    sequence     BIGINT  NOT NULL, -- the bank's count, 0 without one
    balanced     BOOLEAN NOT NULL, -- the bank states opening and closing balances
    opening      BIGINT  NOT NULL,
    closing      BIGINT  NOT NULL,
    opens_on     TEXT    NOT NULL, -- 2026-03-02
    closes_on    TEXT    NOT NULL,
    made_at      BIGINT  NOT NULL, -- time at which the bank created the statement
    taken_at     BIGINT  NOT NULL, -- time of the import
    PRIMARY KEY (number, currency, statement_id)
);

-- Entries of those statements, one row per object of ours an entry is about.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/bankreceipt
CREATE TABLE bank_entries (
    number       TEXT   NOT NULL,
    currency     TEXT   NOT NULL,
    statement_id TEXT   NOT NULL,
    position     BIGINT NOT NULL,
    subject      TEXT   NOT NULL, -- S0000012, trf_…; '' where unknown
    amount       BIGINT NOT NULL, -- negative for debits
    name         TEXT   NOT NULL, -- the bank's reference, by which staff can find the entry
    PRIMARY KEY (number, currency, statement_id, position)
);


-- =======
-- Payroll
-- =======

-- A payroll: many payments funded together.
-- Shared: a bank transfer names a payroll by its id only.
-- Writer: internal/payroll
CREATE TABLE payrolls (
    company_id       TEXT   NOT NULL,
    payroll_id       TEXT   NOT NULL,
    external_id      TEXT   NOT NULL,
    -- State; payments_* is the state of all payments without a state in their own row.
    state            TEXT   NOT NULL,
    held_from        TEXT   NOT NULL, -- the state a hold interrupts
    hold_reason      TEXT   NOT NULL,
    funding_state    TEXT   NOT NULL,
    version          BIGINT NOT NULL,
    -- Amounts, in minor units of currency.
    currency         TEXT   NOT NULL,
    payees           BIGINT NOT NULL,
    volume           BIGINT NOT NULL,
    fees             BIGINT NOT NULL,
    total            BIGINT NOT NULL CHECK (total = volume + fees),
    escrow           BIGINT NOT NULL CHECK (escrow >= 0),
    shortfall        BIGINT NOT NULL CHECK (shortfall >= 0),
    -- Funding.
    funding_method   TEXT   NOT NULL,
    funding_currency TEXT   NOT NULL,
    rate             TEXT   NOT NULL, -- '' if the payroll has no rate or several
    address          TEXT   NOT NULL,
    network          TEXT   NOT NULL,
    tolerance_bps    BIGINT NOT NULL,
    pay_date         TEXT   NOT NULL, -- such as 2026-09-30, '' if it is paid as soon as it is funded
    release_at       BIGINT NOT NULL, -- the beginning of pay_date, 0 without one
    period_start     TEXT   NOT NULL DEFAULT '', -- first day of the pay period, '' for none
    period_end       TEXT   NOT NULL DEFAULT '', -- last day of the pay period, '' for none
    -- The platform that earns a part of the fees: its company, its rate, and what was posted for it so far.
    platform_id      TEXT   NOT NULL DEFAULT '',
    platform_fee_bps BIGINT NOT NULL DEFAULT 0,
    platform_earned  BIGINT NOT NULL DEFAULT 0,

    metadata         TEXT   NOT NULL DEFAULT '', -- JSON object, '' for none
    created_by       TEXT   NOT NULL DEFAULT '', -- the member who created it on a page, '' for an app
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    PRIMARY KEY (company_id, payroll_id)
);
CREATE UNIQUE INDEX payrolls_external ON payrolls (company_id, external_id) WHERE external_id <> '';
CREATE INDEX payrolls_by_state ON payrolls (company_id, state, payroll_id);
CREATE INDEX payrolls_by_id ON payrolls (payroll_id);
CREATE INDEX payrolls_open ON payrolls (state)
    WHERE state IN ('pending', 'received', 'released', 'on_hold', 'partially_fulfilled', 'action_required', 'returned');
CREATE INDEX payrolls_awaiting_transfer ON payrolls (created_at) WHERE state = 'pending' AND funding_method = 'bank';

-- A payroll or claim that an app proposes and a member creates.
-- Writer: internal/proposal
CREATE TABLE proposals (
    company_id  TEXT   NOT NULL,
    proposal_id TEXT   NOT NULL,
    kind        TEXT   NOT NULL CHECK (kind IN ('payroll', 'claim')),
    state       TEXT   NOT NULL CHECK (state IN ('open', 'confirmed', 'declined', 'cancelled', 'expired')),
    content     TEXT   NOT NULL, -- JSON, encrypted; '' once it is not open
    digest      TEXT   NOT NULL, -- of the content
    note        TEXT   NOT NULL, -- what the app says about it
    app_id      TEXT   NOT NULL,
    currency    TEXT   NOT NULL,
    amount      BIGINT NOT NULL CHECK (amount > 0), -- without fees
    payees      BIGINT NOT NULL, -- 0 for a claim
    object_id   TEXT   NOT NULL, -- the payroll or claim that was created, '' for none
    decided_by  TEXT   NOT NULL, -- the member who confirmed or declined it, '' for none
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, proposal_id)
);
CREATE UNIQUE INDEX proposals_open ON proposals (company_id, app_id, digest) WHERE state = 'open';
CREATE INDEX proposals_by_state ON proposals (company_id, state, proposal_id);

-- A schedule that creates payrolls.
-- Writer: internal/payroll/schedule
-- Shared: a worker process selects due schedules of all companies.
CREATE TABLE schedules (
    company_id   TEXT   NOT NULL,
    schedule_id  TEXT   NOT NULL,
    request_key  TEXT   NOT NULL, -- idempotency key of the form that created it, '' for none
    name         TEXT   NOT NULL,
    state        TEXT   NOT NULL CHECK (state IN ('active', 'paused', 'ended')),
    frequency    TEXT   NOT NULL CHECK (frequency IN ('weekly', 'biweekly', 'semimonthly', 'monthly')),
    start_date   TEXT   NOT NULL,
    end_date     TEXT   NOT NULL, -- '' for none
    days         TEXT   NOT NULL, -- days of the month, such as 15,31; '' for a weekly schedule
    working_day  TEXT   NOT NULL CHECK (working_day IN ('none', 'before', 'after')),
    calendar     TEXT   NOT NULL, -- country whose holidays are not working days, or weekdays
    time_zone    TEXT   NOT NULL,
    days_ahead   BIGINT NOT NULL, -- days between the creation of a payroll and its pay date
    terms        TEXT   NOT NULL, -- JSON: currency and funding of the payrolls
    to_pay       TEXT   NOT NULL, -- JSON: payees with their amounts
    next_day     TEXT   NOT NULL, -- day of the next run before the working-day rule, '' if there is none; never moves back
    next_at      BIGINT NOT NULL, -- when to create or retry the next payroll
    created_by   TEXT   NOT NULL, -- the member who entered all of it, '' for an app or several members
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, schedule_id)
);
CREATE UNIQUE INDEX schedules_by_key ON schedules (company_id, request_key) WHERE request_key <> '';
CREATE INDEX schedules_due ON schedules (next_at, schedule_id) WHERE state = 'active';

-- A run of a schedule that was created, waits, was skipped or was changed.
-- Writer: internal/payroll/schedule
CREATE TABLE schedule_runs (
    company_id  TEXT   NOT NULL,
    schedule_id TEXT   NOT NULL,
    day         TEXT   NOT NULL, -- before the working-day rule
    run_id      TEXT   NOT NULL,
    pay_date    TEXT   NOT NULL,
    state       TEXT   NOT NULL CHECK (state IN ('planned', 'skipped', 'waiting', 'created')),
    reason      TEXT   NOT NULL,
    payroll_id  TEXT   NOT NULL, -- '' before it is created
    to_pay      TEXT   NOT NULL, -- JSON, '' for the schedule's
    changed_by  TEXT   NOT NULL, -- the member who changed to_pay, '' for an app
    version     BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, schedule_id, day)
);

-- One payee's payment of a payroll.
-- Writer: internal/payroll
CREATE TABLE payments (
    company_id          TEXT    NOT NULL,
    payroll_id          TEXT    NOT NULL,
    payment_id          TEXT    NOT NULL,
    position            BIGINT  NOT NULL, -- index in to_pay
    payee_id            TEXT    NOT NULL,
    user_id             TEXT    NOT NULL,
    state               TEXT    NOT NULL,
    amount              BIGINT  NOT NULL CHECK (amount > 0),
    fee                 BIGINT  NOT NULL CHECK (fee >= 0),
    receive_amount      BIGINT  NOT NULL DEFAULT 0, -- what the payee receives exactly, 0 if amount is fixed
    receive_asset       TEXT    NOT NULL DEFAULT '',
    -- what the company paid on top because receive_amount cost more at the release, in the payroll's currency
    surcharge           BIGINT  NOT NULL DEFAULT 0 CHECK (surcharge >= 0),
    country             TEXT    NOT NULL,
    premium             BOOLEAN NOT NULL,
    invoice_id          TEXT    NOT NULL,
    description         TEXT    NOT NULL,
    category            TEXT    NOT NULL,
    external_payment_id TEXT    NOT NULL,
    reason              TEXT    NOT NULL,
    -- A changed destination that a member confirmed.
    confirmed_at        BIGINT  NOT NULL DEFAULT 0,
    confirmed_by        TEXT    NOT NULL DEFAULT '',
    metadata            TEXT    NOT NULL DEFAULT '', -- JSON object, '' for none

    version             BIGINT  NOT NULL,
    PRIMARY KEY (company_id, payroll_id, payment_id)
);
-- A company's own ID of a payment is paid once; cancelling the payroll frees it.
CREATE UNIQUE INDEX payments_external ON payments (company_id, external_payment_id)
    WHERE external_payment_id <> '' AND state <> 'cancelled';
-- Whether a payee was paid before decides whether a changed destination waits.
CREATE INDEX payments_by_payee ON payments (company_id, payee_id);
CREATE INDEX payments_to_correct ON payments (company_id, payroll_id) WHERE state IN ('action_required', 'returned');
CREATE INDEX payments_to_exchange ON payments (company_id, payroll_id)
    WHERE state = 'on_hold' AND reason IN ('conversion_unavailable', 'price_changed');

-- Amounts posted for each deposit of a payroll, so that it is posted once and reversed exactly.
-- Writer: internal/payroll
CREATE TABLE payroll_receipts (
    company_id TEXT    NOT NULL,
    payroll_id TEXT    NOT NULL,
    deposit_id TEXT    NOT NULL,
    price_id   TEXT    NOT NULL, -- the quote, or the deposit itself when it was late
    rate       TEXT    NOT NULL, -- '' while in suspense
    active     BOOLEAN NOT NULL, -- posted and not reversed
    is_late    BOOLEAN NOT NULL,
    version    BIGINT  NOT NULL, -- number of postings and reversals
    amount     BIGINT  NOT NULL CHECK (amount > 0),
    escrow     BIGINT  NOT NULL CHECK (escrow >= 0),
    surplus    BIGINT  NOT NULL CHECK (surplus >= 0),
    suspense   BIGINT  NOT NULL CHECK (suspense >= 0),
    debt_settled BIGINT NOT NULL CHECK (debt_settled >= 0), -- settled debt of an earlier reversal
    debt       BIGINT  NOT NULL CHECK (debt >= 0), -- due from the company after a reversal
    repriced   BIGINT  NOT NULL CHECK (repriced >= 0), -- operator's gain on a canceled payroll, part of the surplus
    PRIMARY KEY (company_id, payroll_id, deposit_id)
);

-- Form keys of the page that creates payrolls. A form sent twice creates one payroll.
-- Writer: internal/payroll
CREATE TABLE payroll_form_keys (
    company_id      TEXT   NOT NULL,
    idempotency_key TEXT   NOT NULL,
    payroll_id      TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (company_id, idempotency_key)
);

-- Members who approved a payroll or a withdrawal.
-- Writer: internal/approval
CREATE TABLE approvals (
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (company_id, object_id, user_id)
);

-- What the first approval of a payroll refers to: a digest of each payment's payee, amount and destinations.
-- Writer: internal/payroll
CREATE TABLE approved_payments (
    company_id TEXT NOT NULL,
    payroll_id TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    content    TEXT NOT NULL,
    PRIMARY KEY (company_id, payroll_id, payment_id)
);

-- Total above which a company's payments need a second member, and a proposed change of it.
-- Writer: internal/approval
CREATE TABLE approval_limits (
    company_id        TEXT   NOT NULL,
    currency          TEXT   NOT NULL, -- '' for no limit
    amount            BIGINT NOT NULL,
    proposal_id       TEXT   NOT NULL,
    proposed_by       TEXT   NOT NULL, -- '' while no change is proposed
    proposed_currency TEXT   NOT NULL,
    proposed_amount   BIGINT NOT NULL,
    set_at            BIGINT NOT NULL, -- time from which there has been a limit
    updated_at        BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- Payments without approval, which count toward the limits of the day and the week.
-- Writer: internal/approval
CREATE TABLE approval_uses (
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    currency   TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (company_id, object_id)
);
CREATE INDEX approval_uses_at ON approval_uses (company_id, at);

-- Released payments that count toward the velocity limits of companies and payees, for a week.
-- Shared: a person may be paid by several companies.
-- Writer: internal/approval
CREATE TABLE velocity_uses (
    subject_id TEXT   NOT NULL, -- company, user or recipient
    object_id  TEXT   NOT NULL, -- payroll, withdrawal, income or refund; '' in the row that is locked
    currency   TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (subject_id, object_id)
);
CREATE INDEX velocity_uses_at ON velocity_uses (subject_id, at);


-- ==========================
-- Claims (merchant checkout)
-- ==========================

-- Terms for a merchant's claims. A company without a row has the defaults.
-- Writer: internal/claim
CREATE TABLE merchant_settings (
    company_id     TEXT   NOT NULL,
    tolerance_bps  BIGINT NOT NULL CHECK (tolerance_bps BETWEEN 0 AND 500),
    confirmations  BIGINT NOT NULL CHECK (confirmations IN (0, 1, 2, 6)),
    late_policy    TEXT   NOT NULL CHECK (late_policy IN ('manual', 'requote', 'refund')),
    grace_seconds  BIGINT NOT NULL CHECK (grace_seconds BETWEEN 0 AND 120),
    settle_in      TEXT   NOT NULL, -- asset, 'coin' for the coin of each payment, '' for each claim's own currency
    origins        TEXT   NOT NULL, -- JSON: where the checkout may be embedded, and return to
    schedule       TEXT   NOT NULL CHECK (schedule IN ('manual', 'daily', 'weekly')),
    settles_at     BIGINT NOT NULL DEFAULT 0, -- when the next scheduled settlement is due
    time_zone      TEXT   NOT NULL DEFAULT 'UTC', -- of the schedule
    day            BIGINT NOT NULL DEFAULT 1 CHECK (day BETWEEN 0 AND 6), -- of weekly settlements; 0 is Sunday
    convert_to     TEXT   NOT NULL DEFAULT '', -- currency of settlements, '' for what claims earned
    support_email  TEXT   NOT NULL DEFAULT '', -- shown to payers
    destination_id TEXT   NOT NULL DEFAULT '', -- where settlements go, '' for the company's balance
    version        BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- How a merchant's pages and mails look to payers. A company without a row has the defaults.
-- Writer: internal/branding
CREATE TABLE merchant_brandings (
    company_id TEXT   NOT NULL,
    name       TEXT   NOT NULL, -- '' for the company's name
    accent     TEXT   NOT NULL, -- color such as #1d3f8f, '' for the service's
    headline   TEXT   NOT NULL,
    thank_you  TEXT   NOT NULL,
    languages  TEXT   NOT NULL, -- offered to payers, separated by spaces, '' for all
    logo       TEXT   NOT NULL, -- digest, '' for none
    version    BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id)
);

-- Logos, encoded by the service.
-- Shared: pages of payers name a logo by its digest.
-- Writer: internal/branding
CREATE TABLE brand_logos (
    company_id TEXT NOT NULL,
    digest     TEXT NOT NULL,
    png        TEXT NOT NULL, -- base64
    PRIMARY KEY (company_id)
);
CREATE INDEX brand_logos_by_digest ON brand_logos (digest);

-- Reusable links that create claims.
-- Shared: the public page knows only the link's id.
-- Writer: internal/paymentlink
CREATE TABLE payment_links (
    company_id   TEXT    NOT NULL,
    link_id      TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    funding      TEXT    NOT NULL, -- asset in which payers pay, or any
    amount       BIGINT  NOT NULL CHECK (amount >= 0), -- 0 if the payer chooses
    min_amount   BIGINT  NOT NULL CHECK (min_amount >= 0),
    max_amount   BIGINT  NOT NULL CHECK (max_amount >= 0),
    suggested    TEXT    NOT NULL, -- JSON array of amounts
    max_payments BIGINT  NOT NULL CHECK (max_payments >= 0), -- 0 for no limit
    paid         BIGINT  NOT NULL CHECK (paid >= 0),
    reserved     BIGINT  NOT NULL CHECK (reserved >= 0),
    ends_at      BIGINT  NOT NULL, -- 0 for no end
    active       BOOLEAN NOT NULL,
    metadata     TEXT    NOT NULL, -- JSON object, '' for none
    redirect_url TEXT    NOT NULL,
    version      BIGINT  NOT NULL,
    created_at   BIGINT  NOT NULL,
    updated_at   BIGINT  NOT NULL,
    PRIMARY KEY (company_id, link_id)
);
CREATE UNIQUE INDEX payment_links_by_id ON payment_links (link_id);

-- The claims of a payment link, one per opening, with what each takes of the link's limit.
-- Writer: internal/paymentlink
CREATE TABLE payment_link_claims (
    company_id TEXT NOT NULL,
    link_id    TEXT NOT NULL,
    claim_id   TEXT NOT NULL,
    opening    TEXT NOT NULL, -- digest of the opening's key and amount
    place      TEXT NOT NULL CHECK (place IN ('held', 'paid', 'released')),
    PRIMARY KEY (company_id, link_id, claim_id),
    UNIQUE (company_id, link_id, opening)
);

-- Claims: amounts that customers owe a merchant or, for an invoice, a user: company_id is then the user.
-- Shared: the checkout page knows only the claim's id.
-- Writer: internal/claim
CREATE TABLE claims (
    company_id    TEXT    NOT NULL,
    claim_id      TEXT    NOT NULL,
    -- Amounts to pay.
    payer_id      TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    return_url    TEXT    NOT NULL,
    redirects     BOOLEAN NOT NULL, -- the checkout leads to return_url by itself
    external_id   TEXT    NOT NULL, -- the merchant's order number, '' for none
    metadata      TEXT    NOT NULL, -- JSON object, '' for none
    line_items    TEXT    NOT NULL, -- JSON array, '' for none
    payer_email   TEXT    NOT NULL, -- where receipts go, sealed, '' for none
    link_id       TEXT    NOT NULL, -- payment link or invoice that created the claim, '' for none
    expires_at    BIGINT  NOT NULL, -- the payer gets no new price from then on, 0 for never
    currency      TEXT    NOT NULL, -- currency of amount and fee
    amount        BIGINT  NOT NULL CHECK (amount > 0),
    fee           BIGINT  NOT NULL CHECK (fee >= 0 AND fee <= amount),
    fee_bps       BIGINT  NOT NULL,
    funding_asset TEXT    NOT NULL, -- asset that pays the claim, or the first that it accepts
    settle_asset  TEXT    NOT NULL,
    -- Terms copied from merchant_settings.
    settlement    TEXT    NOT NULL,
    address       TEXT    NOT NULL,
    network       TEXT    NOT NULL,
    tolerance_bps BIGINT  NOT NULL,
    confirmations BIGINT  NOT NULL,
    late_policy   TEXT    NOT NULL,
    grace_seconds BIGINT  NOT NULL,
    -- State.
    state         TEXT    NOT NULL
        CHECK (state IN ('awaiting_payment', 'partially_paid', 'confirming', 'paid', 'expired', 'underpaid',
           'paid_late', 'invalid', 'refunded', 'cancelled')),
    exception     TEXT    NOT NULL CHECK (exception IN ('none', 'overpaid', 'late', 'within_tolerance')),
    reverted      BOOLEAN NOT NULL, -- was paid until the chain reverted the payment
    version       BIGINT  NOT NULL,
    refunding     BOOLEAN NOT NULL, -- everything received is refunded
    cancelled_at  BIGINT  NOT NULL,
    invalid_at    BIGINT  NOT NULL,
    -- Amounts received.
    tx_hash       TEXT    NOT NULL, -- the transaction that completed the payment, or the newest
    seen          BIGINT  NOT NULL, -- received on the chain, confirmed or not
    -- Amounts posted to the ledger. Each step posts the difference from the amounts that are now correct.
    wallet        BIGINT  NOT NULL CHECK (wallet >= 0),
    places        TEXT    NOT NULL, -- wallet by chain, as JSON; '' for nothing
    suspense      BIGINT  NOT NULL CHECK (suspense >= 0),
    excess        BIGINT  NOT NULL CHECK (excess >= 0),
    shortfall     BIGINT  NOT NULL CHECK (shortfall >= 0),
    exchanged     BIGINT  NOT NULL CHECK (exchanged >= 0),
    merchant      BIGINT  NOT NULL CHECK (merchant >= 0),
    revenue       BIGINT  NOT NULL CHECK (revenue >= 0),
    -- Due from the company after a reorganization, because the money had been paid out.
    merchant_debt BIGINT  NOT NULL CHECK (merchant_debt >= 0),
    refund_debt   BIGINT  NOT NULL CHECK (refund_debt >= 0),
    refunded      BIGINT  NOT NULL CHECK (refunded >= 0), -- part of excess that was paid back
    -- Of the merchant's money that was refunded: the coins, and the part of amount.
    returned      BIGINT  NOT NULL DEFAULT 0 CHECK (returned >= 0),
    returned_value BIGINT NOT NULL DEFAULT 0 CHECK (returned_value >= 0 AND returned_value <= amount),

    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    PRIMARY KEY (company_id, claim_id)
);
CREATE INDEX claims_by_state ON claims (company_id, state, claim_id);
CREATE INDEX claims_by_time ON claims (company_id, created_at);
CREATE INDEX claims_by_external_id ON claims (company_id, external_id) WHERE external_id <> '';
CREATE INDEX claims_by_link ON claims (company_id, link_id, claim_id) WHERE link_id <> '';
CREATE UNIQUE INDEX claims_by_id ON claims (claim_id);

-- Money of claims in other assets than the one that pays them, posted to the ledger. The columns are those of claims.
-- Writer: internal/claim
CREATE TABLE claim_other_assets (
    company_id    TEXT   NOT NULL,
    claim_id      TEXT   NOT NULL,
    asset         TEXT   NOT NULL,
    wallet        BIGINT NOT NULL CHECK (wallet >= 0),
    places        TEXT   NOT NULL,
    suspense      BIGINT NOT NULL CHECK (suspense >= 0),
    excess        BIGINT NOT NULL CHECK (excess >= 0),
    merchant      BIGINT NOT NULL CHECK (merchant >= 0),
    merchant_debt BIGINT NOT NULL CHECK (merchant_debt >= 0),
    refund_debt   BIGINT NOT NULL CHECK (refund_debt >= 0),
    refunded      BIGINT NOT NULL CHECK (refunded >= 0),
    returned      BIGINT NOT NULL CHECK (returned >= 0),
    PRIMARY KEY (company_id, claim_id, asset)
);

-- The claim of each external ID, which is reserved before the claim is inserted.
-- Writer: internal/claim
CREATE TABLE claim_external_ids (
    company_id  TEXT NOT NULL,
    external_id TEXT NOT NULL,
    claim_id    TEXT NOT NULL,
    digest      TEXT NOT NULL, -- of the content of the request that created the claim
    PRIMARY KEY (company_id, external_id)
);

-- Late deposits that were accepted at a new rate.
-- Writer: internal/claim
CREATE TABLE claim_accepted_deposits (
    company_id  TEXT   NOT NULL,
    claim_id    TEXT   NOT NULL,
    deposit_id  TEXT   NOT NULL,
    rate        TEXT   NOT NULL, -- '' if nothing is exchanged
    accepted_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, claim_id, deposit_id)
);

-- Refunds to payers. The link that offers one works once.
-- Writer: internal/claim
CREATE TABLE claim_refunds (
    company_id   TEXT    NOT NULL,
    claim_id     TEXT    NOT NULL,
    refund_id    TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('awaiting_approval', 'offered', 'accepted', 'paid', 'withdrawn')),
    asset        TEXT    NOT NULL,
    network      TEXT    NOT NULL, -- network on which it is paid, or lightning
    amount       BIGINT  NOT NULL CHECK (amount > 0),
    -- Of a refund of the merchant's money; '' and 0 for money that already is the payer's.
    currency     TEXT    NOT NULL, -- currency of value
    value        BIGINT  NOT NULL CHECK (value >= 0), -- part of the claim's amount that is returned
    cost_asset   TEXT    NOT NULL,
    from_claims  BIGINT  NOT NULL CHECK (from_claims >= 0), -- part of the cost from what claims earned
    from_balance BIGINT  NOT NULL CHECK (from_balance >= 0),
    created_by   TEXT    NOT NULL, -- member, '' for a program
    fee          BIGINT  NOT NULL CHECK (fee >= 0 AND fee < amount), -- network fee, part of amount
    token_digest TEXT    NOT NULL,
    mailed_digest TEXT   NOT NULL, -- digest of a second token, mailed after the approvals or a failed payout; '' for none
    address      TEXT    NOT NULL, -- '' before the payer entered one
    output_id    TEXT    NOT NULL,
    txid         TEXT    NOT NULL,
    expires_at   BIGINT  NOT NULL,
    withheld     BOOLEAN NOT NULL DEFAULT FALSE, -- waits for two staff members
    version      BIGINT  NOT NULL,
    created_at   BIGINT  NOT NULL,
    updated_at   BIGINT  NOT NULL,
    PRIMARY KEY (company_id, claim_id, refund_id)
);
-- One offer of the payer's own money in each asset at a time.
CREATE UNIQUE INDEX claim_refunds_offered ON claim_refunds (company_id, claim_id, asset)
    WHERE state = 'offered' AND currency = '';
CREATE INDEX claim_refunds_awaiting ON claim_refunds (company_id, refund_id) WHERE state = 'awaiting_approval';

-- Settlements: proceeds of a merchant's claims that were credited to the company's balance.
-- Writer: internal/claim
CREATE TABLE settlements (
    company_id    TEXT   NOT NULL,
    settlement_id TEXT   NOT NULL,
    earned_asset  TEXT   NOT NULL,
    earned        BIGINT NOT NULL CHECK (earned > 0), -- what is settled
    asset         TEXT   NOT NULL,
    amount        BIGINT NOT NULL CHECK (amount > 0), -- what it was exchanged into, the same if it was not
    rate          TEXT   NOT NULL, -- of the exchange, '' for none
    withdrawal_id TEXT   NOT NULL DEFAULT '', -- withdrawal that pays the settlement out, '' for none
    due_at        BIGINT NOT NULL, -- when it was scheduled for, 0 if it was requested
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, settlement_id)
);
-- Each scheduled settlement is made once.
CREATE UNIQUE INDEX settlements_due ON settlements (company_id, due_at, earned_asset) WHERE due_at > 0;

-- One row per company, locked to count its claims one after the other when it is close to a limit.
-- Writer: internal/claim
CREATE TABLE claim_rate_limits (
    company_id TEXT NOT NULL,
    PRIMARY KEY (company_id)
);


-- ==========================
-- Payers, invoices and bills
-- ==========================

-- Customers billed by users and companies. A deleted payer keeps its row and name.
-- Shared: belongs to a user or a company; staff names one by its id.
-- Writer: internal/invoice/payer
CREATE TABLE payers (
    owner_id     TEXT   NOT NULL, -- user or company
    payer_id     TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    email        TEXT   NOT NULL,
    status       TEXT   NOT NULL CHECK (status IN ('active', 'deleted')),
    company_type TEXT   NOT NULL DEFAULT 'client' CHECK (company_type IN ('employer', 'client')),
    currency     TEXT   NOT NULL DEFAULT 'USD' CHECK (currency IN ('EUR', 'USD')),
    website      TEXT   NOT NULL DEFAULT '',
    details      TEXT   NOT NULL DEFAULT '', -- address, occupation and amount noted by the owner, sealed
    -- invoices in open payrolls; while above 0 the payer cannot be deleted
    being_paid   BIGINT NOT NULL DEFAULT 0 CHECK (being_paid >= 0),
    company_id   TEXT   NOT NULL DEFAULT '', -- the company that is notified, '' for none
    -- whether the payer is that company, which then lists the invoices to it and pays them by payrolls
    is_company   BOOLEAN NOT NULL DEFAULT FALSE CHECK (NOT is_company OR company_id <> '' AND company_id <> owner_id),
    version      BIGINT NOT NULL DEFAULT 1,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (owner_id, payer_id)
);
CREATE INDEX payers_by_id ON payers (payer_id);

-- Invoices of users to their payers, and bills: what a company owes to a vendor, recorded by the company. A bill has no
-- payer. A row has one payment, so one payroll at a time pays it.
-- Shared: belongs to a user; a payroll finds the invoices it pays by id.
-- Writer: internal/invoice
CREATE TABLE invoices (
    user_id    TEXT   NOT NULL, -- the user who is owed or, of a bill, the vendor's recipient_id
    invoice_id TEXT   NOT NULL,
    company_id TEXT   NOT NULL, -- the company the user acts for, which is notified; of a bill, the company that owes
    payer_id   TEXT   NOT NULL, -- '' of a bill
    number     TEXT   NOT NULL,
    status     TEXT   NOT NULL CHECK (status IN ('draft', 'sent', 'in_payroll', 'partially_paid', 'paid', 'void')),
    -- Amounts.
    currency   TEXT   NOT NULL,
    subtotal   BIGINT NOT NULL CHECK (subtotal > 0),
    tax        BIGINT NOT NULL CHECK (tax >= 0),
    total      BIGINT NOT NULL CHECK (total = subtotal + tax),
    paid       BIGINT NOT NULL CHECK (paid >= 0 AND paid <= total),
    -- The payroll that pays it.
    payroll_id TEXT   NOT NULL,
    payment_id TEXT   NOT NULL,

    issue_date TEXT   NOT NULL,
    due_date   TEXT   NOT NULL,
    document   TEXT   NOT NULL DEFAULT '', -- of a bill: the vendor's invoice in vendor_documents, or ''
    content    TEXT   NOT NULL, -- lines, notes and the token of its page, sealed
    link       TEXT   NOT NULL DEFAULT '', -- digest of the token of its page, '' of a bill
    metadata   TEXT   NOT NULL DEFAULT '', -- JSON object, '' for none
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, invoice_id),
    CHECK (status <> 'in_payroll' OR payment_id <> '')
);
CREATE UNIQUE INDEX invoices_by_number ON invoices (user_id, number) WHERE status <> 'void';
CREATE UNIQUE INDEX invoices_by_id ON invoices (invoice_id);
CREATE UNIQUE INDEX invoices_by_link ON invoices (link) WHERE link <> '';
-- A payment pays one invoice.
CREATE UNIQUE INDEX invoices_by_payment ON invoices (payment_id) WHERE payment_id <> '';
CREATE INDEX invoices_by_company ON invoices (company_id, created_at, invoice_id) WHERE company_id <> '';

-- The claims by which payers pay invoices of users in coins. An invoice has one claim at a time that takes money.
-- Shared: belongs to a user.
-- Writer: internal/invoice/checkout
CREATE TABLE invoice_claims (
    user_id     TEXT   NOT NULL,
    invoice_id  TEXT   NOT NULL,
    claim_id    TEXT   NOT NULL,
    number      BIGINT NOT NULL CHECK (number > 0), -- 1 for the first claim of the invoice
    transfer_id TEXT   NOT NULL, -- credit to the user's balance, '' while there is none
    currency    TEXT   NOT NULL, -- of counted
    counted     BIGINT NOT NULL CHECK (counted >= 0), -- part of the credit that counts towards the invoice
    PRIMARY KEY (user_id, claim_id),
    UNIQUE (user_id, invoice_id, number),
    CHECK (counted = 0 OR transfer_id <> '')
);

-- Bills of vendors, uploaded by a company.
-- Writer: internal/invoice/vendorbill
CREATE TABLE vendor_documents (
    company_id  TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    media_type  TEXT   NOT NULL CHECK (media_type IN ('application/pdf', 'image/jpeg')),
    bytes       BIGINT NOT NULL CHECK (bytes > 0),
    sha256      TEXT   NOT NULL,
    -- The payroll that paid it, or the bill that it documents.
    payroll_id  TEXT   NOT NULL,
    payment_id  TEXT   NOT NULL,

    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, document_id)
);
CREATE INDEX vendor_documents_by_payroll ON vendor_documents (company_id, payroll_id) WHERE payroll_id <> '';

-- The content of those bills, in sealed chunks.
-- Writer: internal/invoice/vendorbill
CREATE TABLE vendor_document_chunks (
    company_id  TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    n           BIGINT NOT NULL,
    sealed      TEXT   NOT NULL,
    PRIMARY KEY (company_id, document_id, n)
);


-- ======
-- Payout
-- ======

-- Outgoing payments: one share of a payment, refund or withdrawal to one destination.
-- Shared: staff and metrics count what is open, of all companies.
-- Writer: internal/payout
CREATE TABLE outputs (
    company_id      TEXT    NOT NULL,
    output_id       TEXT    NOT NULL,
    -- Amount and payee.
    payroll_id      TEXT    NOT NULL,
    payment_id      TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    rail            TEXT    NOT NULL,
    asset           TEXT    NOT NULL,
    amount          BIGINT  NOT NULL CHECK (amount > 0),
    address         TEXT    NOT NULL,
    destination     TEXT    NOT NULL,
    -- Conversion: units of the other asset per whole rate_base, '' for none.
    input_asset     TEXT    NOT NULL,
    input_amount    BIGINT  NOT NULL,
    rate_base       TEXT    NOT NULL DEFAULT '',
    rate            TEXT    NOT NULL DEFAULT '',
    -- State.
    state           TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    on_hold         BOOLEAN NOT NULL, -- stays queued until its payroll is cleared
    queued_at       BIGINT  NOT NULL,
    -- Destination and route.
    batch_id        TEXT    NOT NULL,
    txid            TEXT    NOT NULL,
    proof           TEXT    NOT NULL DEFAULT '', -- preimage of the payment over Lightning, hexadecimal
    vout            BIGINT  NOT NULL,

    version         BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    PRIMARY KEY (company_id, output_id)
);
CREATE INDEX outputs_of_payment ON outputs (company_id, payroll_id, payment_id);
CREATE INDEX outputs_queue ON outputs (company_id, rail, queued_at, output_id) WHERE state = 'queued';
CREATE INDEX outputs_of_batch ON outputs (company_id, batch_id) WHERE batch_id <> '';
CREATE INDEX outputs_of_transaction ON outputs (company_id, txid) WHERE txid <> '';
CREATE INDEX outputs_queue_by_asset ON outputs (company_id, rail, asset, queued_at, output_id) WHERE state = 'queued';
-- Staff and metrics count what is being paid or waits for a correction.
CREATE INDEX outputs_open ON outputs (state, rail, queued_at)
    WHERE state IN ('prepared', 'sent', 'in_doubt', 'failed', 'returned');

-- One queue per company and rail.
-- Writer: internal/payout
CREATE TABLE payout_queues (
    company_id    TEXT   NOT NULL,
    rail          TEXT   NOT NULL,
    wait_reason   TEXT   NOT NULL, -- why the queue waits, '' if it does not
    waiting_since BIGINT NOT NULL,
    next_run_at   BIGINT NOT NULL, -- next check, 0 for none
    version       BIGINT NOT NULL,
    PRIMARY KEY (company_id, rail)
);

-- The network fee rate that the hot wallet of each chain pays. Transactions that choose coins lock its row.
-- Shared: the wallet is one for all companies.
-- Writer: internal/payout/onchain
CREATE TABLE hot_wallets (
    chain      TEXT   NOT NULL,
    fee_rate   BIGINT NOT NULL, -- sat/vB, or wei per gas; 0 while none is known
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (chain)
);

-- Transactions to pay outputs, and internal transactions of the hot wallet.
-- Shared: a nonce belongs to an account, whichever company is paid.
-- Writer: internal/payout/onchain
CREATE TABLE payout_batches (
    company_id TEXT   NOT NULL,
    batch_id   TEXT   NOT NULL,
    chain      TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    txid       TEXT   NOT NULL,
    value      BIGINT NOT NULL,
    fee        BIGINT NOT NULL,
    inputs     TEXT   NOT NULL, -- JSON: the coins every transaction of the batch spends
    change     TEXT   NOT NULL, -- address
    sent_at    BIGINT NOT NULL,
    -- EVM networks: one transaction per nonce of the paying account.
    asset      TEXT   NOT NULL,
    purpose    TEXT   NOT NULL, -- payout, sweep, gas, collect or fill
    account    TEXT   NOT NULL, -- '' on Bitcoin, and if the signer refused its only transaction
    nonce      BIGINT NOT NULL,

    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, batch_id)
);
CREATE UNIQUE INDEX payout_batches_nonce ON payout_batches (chain, account, nonce) WHERE account <> '';

-- Signed transactions, stored before the first broadcast.
-- Writer: internal/payout/onchain
CREATE TABLE payout_txs (
    company_id TEXT   NOT NULL,
    txid       TEXT   NOT NULL,
    batch_id   TEXT   NOT NULL,
    replaces   TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    raw        TEXT   NOT NULL, -- hex
    unsigned   BOOLEAN NOT NULL, -- a signer in another process has yet to sign it; txid is the hash to be signed on EVM
    refusal    TEXT   NOT NULL, -- why the signer did not sign it
    fee        BIGINT NOT NULL,
    vsize      BIGINT NOT NULL,
    package    BIGINT NOT NULL, -- vsize with all unconfirmed ancestors at signing
    ancestors  BIGINT NOT NULL, -- number of unconfirmed transactions in package, including this one
    attempts   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, txid)
);
CREATE INDEX payout_txs_of_batch ON payout_txs (company_id, batch_id);

-- Outputs that the signer does not pay yet, and why. Staff see them at /operations.
-- Writer: internal/payout/onchain
CREATE TABLE signer_holds (
    company_id TEXT   NOT NULL,
    output_id  TEXT   NOT NULL,
    payment    TEXT   NOT NULL, -- JSON: chain, asset, address and amount, as the signer sees them
    code       TEXT   NOT NULL,
    detail     TEXT   NOT NULL,
    until      BIGINT NOT NULL, -- when time alone permits the payment, or 0
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, output_id)
);

-- Approvals of such outputs by passkeys of staff. The signer verifies them.
-- Writer: internal/payout/onchain
CREATE TABLE signer_approvals (
    company_id TEXT   NOT NULL,
    output_id  TEXT   NOT NULL,
    credential TEXT   NOT NULL, -- ID of the passkey
    approval   TEXT   NOT NULL, -- JSON
    expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, output_id, credential)
);

-- The next nonce of each paying account.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/payout/evm
CREATE TABLE payout_nonces (
    chain   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    next    BIGINT NOT NULL,
    PRIMARY KEY (chain, account)
);

-- Nonces below the next one of an account that no transaction has, because the signer refused the one that had it. The
-- account's next transactions use them first.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/payout/evm
CREATE TABLE payout_free_nonces (
    chain    TEXT   NOT NULL,
    account  TEXT   NOT NULL,
    nonce    BIGINT NOT NULL,
    freed_at BIGINT NOT NULL,
    PRIMARY KEY (chain, account, nonce)
);

-- Transfers of tokens to our addresses that their payers authorized (EIP-3009), which the hot wallet sends. What became of
-- a transfer is the state of its batch.
-- Shared: the batch of a transfer is the operator's.
-- Writer: internal/payout/evm
CREATE TABLE payout_collections (
    company_id    TEXT   NOT NULL,
    collection_id TEXT   NOT NULL,
    object_id     TEXT   NOT NULL, -- claim
    chain         TEXT   NOT NULL,
    asset         TEXT   NOT NULL,
    amount        BIGINT NOT NULL,
    payer         TEXT   NOT NULL,
    recipient     TEXT   NOT NULL,
    valid_after   BIGINT NOT NULL, -- seconds, as signed
    valid_before  BIGINT NOT NULL,
    nonce         TEXT   NOT NULL, -- hex
    signature     TEXT   NOT NULL, -- hex
    send_before   BIGINT NOT NULL,
    batch_id      TEXT   NOT NULL, -- '' until the transfer is signed
    reason        TEXT   NOT NULL, -- why it never will be; '' otherwise
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (company_id, collection_id)
);
CREATE INDEX payout_collections_by_batch ON payout_collections (batch_id) WHERE batch_id <> '';
CREATE UNIQUE INDEX payout_collections_nonce ON payout_collections (company_id, object_id, chain, asset, payer, nonce);

-- Payment files for the bank, stored before the bank receives them.
-- Shared: the bank names only the number of a file.
-- Writer: internal/payout/bank
CREATE TABLE bank_files (
    company_id TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    account    TEXT   NOT NULL, -- the operator's account that pays
    currency   TEXT   NOT NULL, -- of that account; the bank exchanges it if the asset is another one
    name       TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    payments   BIGINT NOT NULL,
    total      BIGINT NOT NULL,
    execute_on TEXT   NOT NULL, -- 2026-03-02
    instant    BOOLEAN NOT NULL, -- SEPA instant payments
    kind       TEXT   NOT NULL CHECK (kind IN ('payments', 'prenotes', 'reversals')),
    checksum   TEXT   NOT NULL, -- SHA-256 of the file, hex
    sealed     TEXT   NOT NULL, -- the file
    state      TEXT   NOT NULL,
    token      TEXT   NOT NULL, -- token of the staged upload, '' before
    attempts   BIGINT NOT NULL,
    sent_at    BIGINT NOT NULL, -- time of the transfer to the bank, 0 before
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, file_id)
);
CREATE UNIQUE INDEX bank_files_number ON bank_files (number);
CREATE INDEX bank_files_open ON bank_files (state, number) WHERE state IN ('prepared', 'in_doubt');

-- Attempts to pay an output by a file. An output that is returned and paid again has two.
-- Writer: internal/payout/bank
CREATE TABLE bank_payments (
    company_id TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    position   BIGINT NOT NULL, -- position in the file, from 1
    part       BIGINT NOT NULL, -- number of the debit of the account that pays the output
    output_id  TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    state      TEXT   NOT NULL, -- ordered, paid, rejected, returned
    reason     TEXT   NOT NULL,
    fee        BIGINT NOT NULL, -- fee charged by the bank
    cost       BIGINT NOT NULL, -- what left the account, in its currency; 0 unless the bank took a price or exchanged
    price      BIGINT NOT NULL, -- the part of cost that is the bank's price
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, file_id, position)
);
CREATE INDEX bank_payments_of_output ON bank_payments (company_id, output_id);
CREATE INDEX bank_payments_ordered ON bank_payments (company_id, file_id) WHERE state = 'ordered';

-- Payments of a file that are ordered by calls to the bank's API.
-- Shared: the bank is asked about transfers of all companies in the order of their next check, and its webhooks and
-- statements name transfers by the bank's ID only.
-- Writer: internal/payout/bank
CREATE TABLE bank_transfers (
    company_id  TEXT   NOT NULL,
    file_id     TEXT   NOT NULL,
    position    BIGINT NOT NULL, -- position in the file, from 1
    method      TEXT   NOT NULL, -- ach, rtp, …; '' before it is chosen
    transfer_id TEXT   NOT NULL, -- the bank's ID, '' before it is known
    state       TEXT   NOT NULL CHECK (state IN ('new', 'in_doubt', 'accepted', 'ended')),
    reason      TEXT   NOT NULL, -- of the last failed call or rejection
    attempts    BIGINT NOT NULL, -- number of recorded responses
    check_at    BIGINT NOT NULL, -- time of the next question about its state, 0 for none
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, file_id, position)
);
CREATE INDEX bank_transfers_of_bank ON bank_transfers (transfer_id) WHERE transfer_id <> '';
CREATE INDEX bank_transfers_due ON bank_transfers (check_at) WHERE check_at > 0;

-- Prenotes: ACH entries of zero, or of one cent at a bank without prenotes, that check an account before the first
-- payment to it.
-- Shared: destinations belong to the person paid, and a file has prenotes of all companies.
-- Writer: internal/payout/bank
CREATE TABLE bank_prenotes (
    prenote_id  TEXT   NOT NULL,
    company_id  TEXT   NOT NULL, -- company or user that entered the account
    account     TEXT   NOT NULL, -- the operator's account
    asset       TEXT   NOT NULL,
    destination TEXT   NOT NULL, -- snapshot, with sealed bank data
    file_id     TEXT   NOT NULL, -- '' if it is in no file
    transfer_id TEXT   NOT NULL, -- the ID at a bank with an API, or ''
    state       TEXT   NOT NULL CHECK (state IN ('new', 'ordered', 'accepted', 'returned', 'refused')),
    wait_until  BIGINT NOT NULL, -- time of the first payment, 0 before it was sent
    asked_at    BIGINT NOT NULL DEFAULT 0, -- last question to a bank with an API, 0 for none
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (prenote_id)
);
CREATE INDEX bank_prenotes_open ON bank_prenotes (account, created_at) WHERE state IN ('new', 'ordered');
CREATE INDEX bank_prenotes_of_bank ON bank_prenotes (transfer_id) WHERE transfer_id <> '';

-- Reversals of ACH payments that were made in error.
-- Shared: the bank names only the number of a file.
-- Writer: internal/payout/bank
CREATE TABLE bank_reversals (
    company_id  TEXT    NOT NULL,
    file_id     TEXT    NOT NULL, -- file of the payment
    position    BIGINT  NOT NULL, -- of the payment in its file
    payment     TEXT    NOT NULL, -- reference of the payment
    reason      TEXT    NOT NULL CHECK (reason IN ('duplicate', 'wrong_payee', 'wrong_amount', 'wrong_date')),
    state       TEXT    NOT NULL CHECK (state IN ('approved', 'ordered', 'collected', 'returned', 'refused', 'expired')),
    code        TEXT    NOT NULL, -- of the bank's return or rejection
    number      BIGINT  NOT NULL, -- number of its own file, 0 before
    amount      BIGINT  NOT NULL, -- cents
    collected   BOOLEAN NOT NULL, -- the money came back
    approved_at BIGINT  NOT NULL,
    PRIMARY KEY (company_id, file_id, position)
);
CREATE INDEX bank_reversals_by_number ON bank_reversals (number) WHERE number > 0;

-- Corrections of account data that a bank asked for.
-- Writer: internal/payout/bank
CREATE TABLE bank_changes (
    company_id TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    position   BIGINT NOT NULL,
    code       TEXT   NOT NULL,
    sealed     TEXT   NOT NULL, -- the corrected value
    noted_at   BIGINT NOT NULL,
    PRIMARY KEY (company_id, file_id, position, code)
);

-- Files received from the bank, by content, so that each is processed once.
-- Shared: one file of the bank has payments of many companies.
-- Writer: internal/payout/bank
CREATE TABLE bank_responses (
    checksum TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    kind     TEXT    NOT NULL, -- '' if unreadable
    facts    BIGINT  NOT NULL, -- number of statements about our payments
    problems TEXT    NOT NULL, -- JSON, for staff
    settled  BOOLEAN NOT NULL, -- false while it waits for another message of the bank
    read_at  BIGINT  NOT NULL,
    PRIMARY KEY (checksum)
);


-- ===============================
-- Withdrawal, wallet and treasury
-- ===============================

-- Destinations of withdrawals: blockchain addresses and bank accounts of companies.
-- Writer: internal/withdrawal
CREATE TABLE company_destinations (
    company_id     TEXT   NOT NULL,
    destination_id TEXT   NOT NULL,
    asset          TEXT   NOT NULL,
    label          TEXT   NOT NULL,
    snapshot       TEXT   NOT NULL, -- JSON, as checked and sealed
    status         TEXT   NOT NULL CHECK (status IN ('active', 'removed')),
    created_by     TEXT   NOT NULL,
    ready_at       BIGINT NOT NULL, -- usable from this time
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id, destination_id)
);

-- Money that companies take out of their balance.
-- Writer: internal/withdrawal
CREATE TABLE withdrawals (
    company_id     TEXT   NOT NULL,
    withdrawal_id  TEXT   NOT NULL,
    destination_id TEXT   NOT NULL,
    asset          TEXT   NOT NULL,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    status         TEXT   NOT NULL
        CHECK (status IN ('pending', 'awaiting_approval', 'on_hold', 'processing', 'completed', 'returned',
           'failed', 'declined', 'cancelled')),
    reason         TEXT   NOT NULL,
    output_id      TEXT   NOT NULL,
    tx_hash        TEXT   NOT NULL,
    external_id    TEXT   NOT NULL,
    request_key    TEXT   NOT NULL,
    created_by     TEXT   NOT NULL, -- member, '' for an app
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id, withdrawal_id)
);
CREATE INDEX withdrawals_by_time ON withdrawals (company_id, created_at, withdrawal_id);
CREATE UNIQUE INDEX withdrawals_by_key ON withdrawals (company_id, request_key) WHERE request_key <> '';
CREATE UNIQUE INDEX withdrawals_by_external_id ON withdrawals (company_id, external_id) WHERE external_id <> '';

-- What the owners of destinations state about their wallets under the travel rule: who hosts a wallet, and the proof that
-- its owner controls it. A statement counts only while the destination is the account that it was made for.
-- Shared: a wallet belongs to the person paid, not to the companies that pay them.
-- Writer: internal/travelrule
CREATE TABLE wallet_statements (
    owner_id       TEXT   NOT NULL, -- user, recipient or company
    destination_id TEXT   NOT NULL,
    place          TEXT   NOT NULL, -- digest of the account
    statement      TEXT   NOT NULL, -- JSON
    stated_by      TEXT   NOT NULL, -- credential
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (owner_id, destination_id)
);

-- IVMS101 records of large payouts of crypto assets. A payout that is sent to another destination gets another record.
-- Shared: staff list the newest records of all companies.
-- Writer: internal/travelrule
CREATE TABLE travel_rule_records (
    company_id     TEXT   NOT NULL, -- payer: a company, or a user who pays their own income out
    record_id      TEXT   NOT NULL,
    object_id      TEXT   NOT NULL, -- payroll, withdrawal or income
    payment_id     TEXT   NOT NULL,
    output_id      TEXT   NOT NULL,
    asset          TEXT   NOT NULL,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    value_currency TEXT   NOT NULL, -- value in the currency of the threshold, 0 without a price
    value          BIGINT NOT NULL,
    sealed         TEXT   NOT NULL, -- record and proof (JSON)
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (company_id, record_id)
);
CREATE INDEX travel_rule_records_by_time ON travel_rule_records (created_at, record_id);

-- Permissions of companies to debit their bank accounts.
-- Shared: mandates that were not used for a long time end, and staff list those that wait for a decision.
-- Writer: internal/directdebit
CREATE TABLE direct_debit_mandates (
    company_id    TEXT   NOT NULL,
    mandate_id    TEXT   NOT NULL,
    scheme        TEXT   NOT NULL CHECK (scheme IN ('sepa_core', 'sepa_b2b', 'ach_ccd', 'ach_web')),
    reference     TEXT   NOT NULL, -- unique mandate reference
    creditor      TEXT   NOT NULL,
    creditor_id   TEXT   NOT NULL, -- SEPA creditor identifier, or ''
    account       TEXT   NOT NULL, -- the account as a destination, sealed
    text          TEXT   NOT NULL, -- text that the member accepted
    language      TEXT   NOT NULL,
    status        TEXT   NOT NULL CHECK (status IN ('pending', 'active', 'suspended', 'revoked', 'ended')),
    reason        TEXT   NOT NULL,
    accepted_by   TEXT   NOT NULL, -- member
    accepted_at   BIGINT NOT NULL,
    accepted_from TEXT   NOT NULL, -- network address and browser, sealed
    last_used_at  BIGINT NOT NULL, -- time of the last debit, 0 before
    version       BIGINT NOT NULL,
    PRIMARY KEY (company_id, mandate_id)
);
CREATE INDEX direct_debit_mandates_open ON direct_debit_mandates (status, accepted_at)
    WHERE status IN ('pending', 'active', 'suspended');

-- Collections of money from bank accounts of companies.
-- Shared: the bank names only the number of a debit, and is asked about debits in the order of their next check.
-- Writer: internal/directdebit
CREATE TABLE direct_debits (
    company_id  TEXT    NOT NULL,
    debit_id    TEXT    NOT NULL,
    mandate_id  TEXT    NOT NULL,
    account     TEXT    NOT NULL, -- the operator's account that collects, '' before the debit is numbered
    number      BIGINT  NOT NULL, -- number of the debit at the bank, 0 before
    asset       TEXT    NOT NULL,
    amount      BIGINT  NOT NULL CHECK (amount > 0),
    released    BIGINT  NOT NULL CHECK (released BETWEEN 0 AND amount), -- credited to the balance
    due_on      TEXT    NOT NULL, -- 2026-03-16
    status      TEXT    NOT NULL
        CHECK (status IN ('scheduled', 'submitting', 'submitted', 'collected', 'available', 'failed', 'returned',
           'cancelled')),
    reason      TEXT    NOT NULL,
    description TEXT    NOT NULL,
    external_id TEXT    NOT NULL,
    request_key TEXT    NOT NULL,
    retry_of    TEXT    NOT NULL, -- debit that this one repeats, or ''
    retries     BIGINT  NOT NULL, -- number of retries before this debit
    is_final    BOOLEAN NOT NULL, -- the last debit under its mandate
    name        TEXT    NOT NULL, -- name of the file
    checksum    TEXT    NOT NULL, -- SHA-256 of the file, hex
    sealed      TEXT    NOT NULL, -- the file or order
    token       TEXT    NOT NULL, -- token of the staged file or the first call, '' before
    transfer_id TEXT    NOT NULL, -- ID at a bank with an API
    attempts    BIGINT  NOT NULL,
    check_at    BIGINT  NOT NULL, -- time of the next question to the bank's API, 0 for none
    checked_at  BIGINT  NOT NULL, -- time of the last question that the bank's API answered, 0 before
    held_until  BIGINT  NOT NULL, -- end of the hold, 0 before the money was collected
    created_by  TEXT    NOT NULL, -- member, '' for a program
    payroll_id  TEXT    NOT NULL, -- payroll that the money funds, or ''
    version     BIGINT  NOT NULL,
    created_at  BIGINT  NOT NULL,
    updated_at  BIGINT  NOT NULL,
    PRIMARY KEY (company_id, debit_id)
);
CREATE INDEX direct_debits_by_time ON direct_debits (company_id, created_at, debit_id);
CREATE INDEX direct_debits_of_payroll ON direct_debits (company_id, payroll_id) WHERE payroll_id <> '';
CREATE INDEX direct_debits_of_mandate ON direct_debits (company_id, mandate_id);
CREATE UNIQUE INDEX direct_debits_number ON direct_debits (number) WHERE number > 0;
CREATE UNIQUE INDEX direct_debits_by_key ON direct_debits (company_id, request_key) WHERE request_key <> '';
CREATE UNIQUE INDEX direct_debits_by_external_id ON direct_debits (company_id, external_id) WHERE external_id <> '';
CREATE UNIQUE INDEX direct_debits_retries ON direct_debits (company_id, retry_of) WHERE retry_of <> '';
CREATE INDEX direct_debits_due ON direct_debits (check_at) WHERE check_at > 0;
CREATE INDEX direct_debits_transfers ON direct_debits (account, transfer_id) WHERE transfer_id <> '';
CREATE INDEX direct_debits_recent ON direct_debits (updated_at);

-- Amounts that companies can use before the holds of their debits end.
-- Writer: internal/directdebit
CREATE TABLE direct_debit_limits (
    company_id TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    amount     BIGINT NOT NULL CHECK (amount >= 0),
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, asset)
);

-- Wallets that companies requested, one per currency. The money is in the ledger only.
-- Writer: internal/wallet
CREATE TABLE wallets (
    company_id TEXT   NOT NULL,
    wallet_id  TEXT   NOT NULL,
    currency   TEXT   NOT NULL,
    status     TEXT   NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'rejected')),
    reason     TEXT   NOT NULL,
    address    TEXT   NOT NULL DEFAULT '', -- for deposits, '' for currencies without a chain
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, wallet_id)
);
CREATE UNIQUE INDEX wallets_by_currency ON wallets (company_id, currency) WHERE status <> 'rejected';

-- Limits for exchange with the operator's own funds. The largest integer means no limit.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/treasury
CREATE TABLE fx_limits (
    asset      TEXT   NOT NULL,
    least      BIGINT NOT NULL, -- the operator keeps at least this much
    upper      BIGINT NOT NULL, -- the operator should sell amounts above this one
    most       BIGINT NOT NULL, -- maximum per destination
    version    BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (asset)
);

-- Bookings of the operator at a bank or an exchange, once per reference.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/treasury
CREATE TABLE fx_bookings (
    booking_id TEXT   NOT NULL, -- place, name and reference
    entered_amount TEXT NOT NULL, -- the booking as entered: its kind and its lines
    booked_at  BIGINT NOT NULL,
    PRIMARY KEY (booking_id)
);


-- ===========
-- Blockchains
-- ===========

-- How far each chain's watcher has read, one row per chain. It advances by compare-and-set, so that two watchers
-- cannot both advance it.
-- Shared: a chain serves all companies.
-- Writer: internal/chain
CREATE TABLE chain_cursors (
    chain               TEXT   NOT NULL,
    height              BIGINT NOT NULL,
    hash                TEXT   NOT NULL,
    updated             BIGINT NOT NULL,
    blocks_per_step     BIGINT NOT NULL DEFAULT 1, -- blocks that count as one confirmation
    -- What witness nodes report about the recorded blocks.
    verified_height     BIGINT NOT NULL DEFAULT 9223372036854775807, -- height up to which a witness has the same blocks
    alarms              TEXT   NOT NULL DEFAULT '',
    tip_time            BIGINT NOT NULL DEFAULT 0,
    conflicting_witness TEXT   NOT NULL DEFAULT '', -- witnesses with different blocks
    PRIMARY KEY (chain)
);

-- The last connected blocks, to walk back a reorganization by hash.
-- Shared: a chain serves all companies.
-- Writer: internal/chain
CREATE TABLE chain_blocks (
    chain  TEXT   NOT NULL,
    height BIGINT NOT NULL,
    hash   TEXT   NOT NULL,
    PRIMARY KEY (chain, height)
);

-- The next unused index of each branch of a wallet.
-- Shared: the operator has one wallet for all companies.
-- Writer: internal/chain
CREATE TABLE chain_pools (
    chain  TEXT   NOT NULL,
    branch BIGINT NOT NULL,
    next   BIGINT NOT NULL,
    -- first address of the branch's key, or 'several'; '' before the first reservation
    keys   TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (chain, branch)
);

-- Addresses given to objects. They are watched forever and never given to another object.
-- Shared: the watcher asks which company an address belongs to.
-- Writer: internal/chain
CREATE TABLE chain_addresses (
    chain      TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    branch     BIGINT NOT NULL,
    idx        BIGINT NOT NULL,
    created    BIGINT NOT NULL,
    PRIMARY KEY (chain, address)
);
CREATE INDEX chain_addresses_paying ON chain_addresses (chain) WHERE object_id = 'fx_account';

-- Transaction outputs to our addresses.
-- Shared: the wallet holds the outputs of all companies.
-- Writer: internal/chain
CREATE TABLE chain_outputs (
    chain              TEXT    NOT NULL,
    txid               TEXT    NOT NULL,
    vout               BIGINT  NOT NULL,
    -- The output.
    company_id         TEXT    NOT NULL,
    object_id          TEXT    NOT NULL,
    address            TEXT    NOT NULL,
    branch             BIGINT  NOT NULL,
    idx                BIGINT  NOT NULL,
    amount             BIGINT  NOT NULL CHECK (amount BETWEEN 0 AND 2100000000000000),
    asset              TEXT    NOT NULL DEFAULT '',
    own                BOOLEAN NOT NULL,
    coinbase           BOOLEAN NOT NULL,
    -- Receipt.
    state              TEXT    NOT NULL CHECK (state IN ('seen', 'mined', 'replaced', 'evicted')),
    height             BIGINT  NOT NULL,
    block_hash         TEXT    NOT NULL,
    first_seen         BIGINT  NOT NULL,
    want_confirmations BIGINT  NOT NULL CHECK (want_confirmations >= 0),
    confirmed          BOOLEAN NOT NULL,
    replaced_by        TEXT    NOT NULL,
    replaced_height    BIGINT  NOT NULL DEFAULT 0, -- block of the transaction replaced_by; 0 while it is in none
    depth              BIGINT  NOT NULL,
    -- Spending.
    spend_state        TEXT    NOT NULL CHECK (spend_state IN ('available', 'reserved', 'spent')),
    reserved_by        TEXT    NOT NULL,
    spent_by           TEXT    NOT NULL,
    spent_height       BIGINT  NOT NULL,
    PRIMARY KEY (chain, txid, vout)
);
CREATE INDEX chain_outputs_state ON chain_outputs (chain, state, confirmed, height);
CREATE INDEX chain_outputs_coins ON chain_outputs (chain, spend_state, spent_height, amount);
CREATE INDEX chain_outputs_object ON chain_outputs (company_id, object_id);
CREATE INDEX chain_outputs_spent_by ON chain_outputs (chain, spent_by);
CREATE INDEX chain_outputs_reserved_by ON chain_outputs (chain, reserved_by);

-- Our own transactions.
-- Shared: found by id in a block or the mempool.
-- Writer: internal/chain
CREATE TABLE chain_txs (
    chain              TEXT    NOT NULL,
    txid               TEXT    NOT NULL,
    company_id         TEXT    NOT NULL,
    object_id          TEXT    NOT NULL,
    state              TEXT    NOT NULL CHECK (state IN ('watched', 'seen', 'mined', 'conflicted')),
    height             BIGINT  NOT NULL,
    want_confirmations BIGINT  NOT NULL CHECK (want_confirmations >= 0),
    confirmed          BOOLEAN NOT NULL,
    conflicted_by      TEXT    NOT NULL,
    created            BIGINT  NOT NULL,
    fee                BIGINT  NOT NULL DEFAULT 0,
    failed             BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (chain, txid)
);
CREATE INDEX chain_txs_state ON chain_txs (chain, state, confirmed, height);

-- Coins spent by each transaction of interest. A second spender of a coin replaces the first.
-- Shared: a chain serves all companies.
-- Writer: internal/chain
CREATE TABLE chain_spends (
    chain     TEXT   NOT NULL,
    prev_txid TEXT   NOT NULL,
    prev_vout BIGINT NOT NULL,
    txid      TEXT   NOT NULL,
    height    BIGINT NOT NULL,
    PRIMARY KEY (chain, prev_txid, prev_vout, txid)
);
CREATE INDEX chain_spends_height ON chain_spends (chain, height);


-- =========================
-- Events, webhooks and mail
-- =========================

-- Events about objects, as companies receive them. position is their place in the one order that all readers see; it
-- is taken directly before the commit.
-- Shared: workers ask for new and old events of all companies.
-- Writer: internal/webhook
CREATE TABLE events (
    company_id TEXT   NOT NULL,
    event_id   TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    sequence   BIGINT NOT NULL,
    name       TEXT   NOT NULL,
    data       TEXT   NOT NULL, -- JSON
    position   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, event_id)
);
-- One event per object and transition.
CREATE UNIQUE INDEX events_once ON events (company_id, object_id, name, sequence);
CREATE INDEX events_by_position ON events (company_id, position);
CREATE UNIQUE INDEX events_in_order ON events (position);

-- The last sequence of the events of an object that several rows belong to: a person, a recipient, a company. Events
-- of other objects have the version of their one row.
-- Writer: internal/webhook
CREATE TABLE event_sequences (
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    sequence   BIGINT NOT NULL,
    PRIMARY KEY (company_id, object_id)
);

-- Has no rows: PostgreSQL counts positions with its sequence.
-- Shared: one order for all companies.
-- Writer: internal/webhook
CREATE TABLE event_positions (
    position BIGSERIAL NOT NULL PRIMARY KEY
);

-- Positions of events: queued is the last event that was added to webhook queues, assigned the last position that was
-- assigned on SQLite.
-- Shared: one order for all companies.
-- Writer: internal/webhook
CREATE TABLE event_cursors (
    name     TEXT   NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (name)
);
INSERT INTO event_cursors (name, position) VALUES ('queued', 0), ('assigned', 0);

-- Addresses that a company's events are sent to, each with a queue.
-- Shared: workers ask for the due queues of all companies.
-- Writer: internal/webhook/delivery
CREATE TABLE webhook_endpoints (
    company_id      TEXT   NOT NULL,
    endpoint_id     TEXT   NOT NULL,
    -- Settings.
    ordinal         BIGINT NOT NULL CHECK (ordinal BETWEEN 1 AND 10), -- bounds the number of endpoints
    url             TEXT   NOT NULL,
    description     TEXT   NOT NULL,
    app_id          TEXT   NOT NULL, -- app whose connected companies' events it receives, '' for those of its company
    events          TEXT   NOT NULL, -- JSON array of names and prefixes; [] is all
    status          TEXT   NOT NULL CHECK (status IN ('enabled', 'disabled_manual', 'disabled_auto')),
    reason          TEXT   NOT NULL,
    -- Signing secrets, sealed; the previous one is valid until previous_until.
    secret          TEXT   NOT NULL,
    previous_secret TEXT   NOT NULL,
    previous_until  BIGINT NOT NULL,
    -- Queue.
    next_run_at     BIGINT NOT NULL, -- next check, 0 for none
    generation      BIGINT NOT NULL, -- counts additions, so that a worker notices new ones before it leaves
    lease_holder    TEXT   NOT NULL, -- the worker, until leased_until
    leased_until    BIGINT NOT NULL,
    failures        BIGINT NOT NULL, -- in a row
    failing_since   BIGINT NOT NULL,
    paused_until    BIGINT NOT NULL,
    last_success_at BIGINT NOT NULL,

    version         BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (company_id, endpoint_id)
);
CREATE UNIQUE INDEX webhook_endpoints_ordinals ON webhook_endpoints (company_id, ordinal);
CREATE INDEX webhook_endpoints_of_app ON webhook_endpoints (app_id) WHERE app_id <> '';
CREATE INDEX webhook_endpoints_due ON webhook_endpoints (next_run_at) WHERE next_run_at > 0;

-- One event for one endpoint.
-- Writer: internal/webhook/delivery
CREATE TABLE webhook_deliveries (
    company_id  TEXT   NOT NULL,
    endpoint_id TEXT   NOT NULL,
    position    BIGINT NOT NULL, -- of the event
    event_id    TEXT   NOT NULL,
    source_id   TEXT   NOT NULL, -- company of the event
    object_id   TEXT   NOT NULL,
    state       TEXT   NOT NULL CHECK (state IN ('pending', 'succeeded', 'failed', 'cancelled', 'blocked')),
    tries       BIGINT NOT NULL, -- of the current schedule
    attempts    BIGINT NOT NULL, -- in total
    next_at     BIGINT NOT NULL,
    error       TEXT   NOT NULL, -- class of the last failure
    http_status BIGINT NOT NULL, -- of the last response, 0 for none
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, endpoint_id, position)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (company_id, endpoint_id, next_at, position)
    WHERE state = 'pending';
-- An event that waits delays later events of its object.
CREATE INDEX webhook_deliveries_of_object ON webhook_deliveries (company_id, endpoint_id, object_id, position)
    WHERE state = 'pending';

-- Log of delivery attempts.
-- Writer: internal/webhook/delivery
CREATE TABLE webhook_attempts (
    company_id  TEXT   NOT NULL,
    endpoint_id TEXT   NOT NULL,
    position    BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    took_ms     BIGINT NOT NULL,
    url         TEXT   NOT NULL,
    sent_at     BIGINT NOT NULL, -- webhook-timestamp, seconds
    http_status BIGINT NOT NULL,
    error       TEXT   NOT NULL,
    response    TEXT   NOT NULL, -- first 4 KiB
    PRIMARY KEY (company_id, endpoint_id, position, attempt)
);

-- Mails to people, one per company, template and key.
-- Writer: internal/mail
CREATE TABLE mails (
    company_id TEXT   NOT NULL, -- '' for a mail on no company's behalf
    mail_id    TEXT   NOT NULL,
    template   TEXT   NOT NULL,
    mail_key   TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    address_key TEXT NOT NULL, -- normalized address, by which addresses are compared; '' when erased
    language   TEXT   NOT NULL,
    data       TEXT   NOT NULL, -- JSON for the template; emptied when sent, because it may have the token of a link
    state      TEXT   NOT NULL CHECK (state IN ('queued', 'sent', 'stored', 'refused')),
    -- The text, only in state 'stored': in a sandbox without a mail server.
    subject    TEXT   NOT NULL,
    body_text  TEXT   NOT NULL,
    body_html  TEXT   NOT NULL,

    reason     TEXT   NOT NULL, -- why the server refused it
    ended_at   BIGINT NOT NULL, -- 0 while queued
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, mail_id)
);
CREATE UNIQUE INDEX mails_once ON mails (company_id, template, mail_key);
CREATE INDEX mails_by_created ON mails (company_id, created_at, mail_id);

-- How many mails an address received, or a company sent, since since_at.
-- Shared: counted per address, for all companies.
-- Writer: internal/mail
CREATE TABLE mail_counts (
    counter  TEXT   NOT NULL, -- digest of what is counted
    since_at BIGINT NOT NULL,
    mails    BIGINT NOT NULL,
    PRIMARY KEY (counter)
);
CREATE INDEX mail_counts_by_age ON mail_counts (since_at);


-- ===========
-- Back office
-- ===========

-- Staff of the operator. They are not users.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/backoffice
CREATE TABLE staff (
    staff_id      TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    email         TEXT   NOT NULL,
    email_key     TEXT   NOT NULL,
    role          TEXT   NOT NULL CHECK (role IN ('support', 'finance', 'compliance', 'admin')),
    password_hash TEXT   NOT NULL,
    secret        TEXT   NOT NULL, -- of the authenticator, sealed
    last_step     BIGINT NOT NULL, -- of the last accepted code
    -- issuer and subject of the account at the OpenID provider, as it first signed in; '' for none
    sso_subject   TEXT   NOT NULL DEFAULT '',
    status        TEXT   NOT NULL CHECK (status IN ('active', 'removed')),
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (staff_id)
);
CREATE UNIQUE INDEX staff_by_email ON staff (email_key) WHERE status = 'active';
CREATE UNIQUE INDEX staff_by_account ON staff (sso_subject) WHERE sso_subject <> '';

-- Signed-in staff, found by the digest of the cookie.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/backoffice
CREATE TABLE staff_sessions (
    digest       TEXT   NOT NULL,
    staff_id     TEXT   NOT NULL,
    last_used_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (digest)
);

-- Audit log of staff. Rows are only added, and each contains the hash of the one before, so that a change is found.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/backoffice
CREATE TABLE staff_actions (
    action_id  TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    staff_id   TEXT   NOT NULL, -- '' for the command line
    name       TEXT   NOT NULL,
    action     TEXT   NOT NULL,
    company_id TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    reason_code TEXT  NOT NULL, -- of a support action, '' for others
    reason     TEXT   NOT NULL,
    sequence   BIGINT NOT NULL CHECK (sequence > 0), -- without gaps
    previous   TEXT   NOT NULL, -- hash of the row before, '' of the first
    hash       TEXT   NOT NULL, -- SHA-256 of the row as exported, hexadecimal
    PRIMARY KEY (action_id)
);
CREATE INDEX staff_actions_by_time ON staff_actions (at, action_id);
CREATE UNIQUE INDEX staff_actions_by_sequence ON staff_actions (sequence);

-- Notes of staff about companies and people.
-- Writer: internal/backoffice
CREATE TABLE staff_notes (
    company_id TEXT   NOT NULL, -- of a company, or of a user
    note_id    TEXT   NOT NULL,
    name       TEXT   NOT NULL, -- of the author
    sealed     TEXT   NOT NULL, -- the text
    created_at BIGINT NOT NULL,
    PRIMARY KEY (company_id, note_id)
);

-- Actions that one staff member requests and another approves.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/approval
CREATE TABLE approval_requests (
    request_id   TEXT   NOT NULL,
    action       TEXT   NOT NULL,
    company_id   TEXT   NOT NULL,
    object_id    TEXT   NOT NULL,
    reason       TEXT   NOT NULL,
    requested_by TEXT   NOT NULL,
    requested_at BIGINT NOT NULL,
    state        TEXT   NOT NULL CHECK (state IN ('open', 'approved', 'dropped')),
    answered_by  TEXT   NOT NULL,
    answered_at  BIGINT NOT NULL,
    -- second argument of the action, for example whom a transfer is credited to
    target       TEXT   NOT NULL DEFAULT '',
    version      BIGINT NOT NULL,
    PRIMARY KEY (request_id)
);
CREATE UNIQUE INDEX approval_requests_open ON approval_requests (action, company_id, object_id) WHERE state = 'open';
CREATE INDEX approval_requests_of_object ON approval_requests (company_id, object_id, action);

-- Reports that compare the ledger with chains and banks.
-- Shared: belongs to the operator, not to a company.
-- Writer: internal/backoffice
CREATE TABLE reconciliations (
    reconciliation_id TEXT   NOT NULL,
    at                BIGINT NOT NULL,
    differences       BIGINT NOT NULL,
    report            TEXT   NOT NULL, -- JSON
    PRIMARY KEY (reconciliation_id)
);
CREATE INDEX reconciliations_by_time ON reconciliations (at, reconciliation_id);


-- ====================================
-- Simulated blockchains (sandbox only)
-- ====================================

-- Invoices of the simulated Lightning node.
-- Shared: sandbox only.
-- Writer: internal/sandbox/lightningsim
CREATE TABLE sim_lightning_invoices (
    hash         TEXT   NOT NULL, -- payment hash
    wallet       TEXT   NOT NULL, -- Lightning address of a simulated payee, '' for an invoice of the node
    preimage     TEXT   NOT NULL, -- hexadecimal
    request      TEXT   NOT NULL, -- BOLT 11
    state        TEXT   NOT NULL CHECK (state IN ('OPEN', 'SETTLED', 'CANCELED')),
    amount       BIGINT NOT NULL, -- millisatoshis
    paid         BIGINT NOT NULL, -- millisatoshis
    settle_index BIGINT NOT NULL, -- order of settlement from 1, 0 until settled
    settled_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (hash)
);
CREATE UNIQUE INDEX sim_lightning_invoices_settled ON sim_lightning_invoices (settle_index) WHERE settle_index > 0;

-- Payments of the simulated Lightning node.
-- Shared: sandbox only.
-- Writer: internal/sandbox/lightningsim
CREATE TABLE sim_lightning_payments (
    hash     TEXT   NOT NULL, -- payment hash
    state    TEXT   NOT NULL CHECK (state IN ('SUCCEEDED', 'FAILED')),
    amount   BIGINT NOT NULL, -- millisatoshis
    fee      BIGINT NOT NULL, -- millisatoshis
    preimage TEXT   NOT NULL, -- '' unless it succeeded
    failure  TEXT   NOT NULL, -- reason of a failed payment
    PRIMARY KEY (hash)
);

-- Block headers of the simulated Bitcoin network.
-- Shared: sandbox only.
-- Writer: internal/sandbox/bitcoinsim
CREATE TABLE sim_blocks (
    hash   TEXT    NOT NULL,
    height BIGINT  NOT NULL,
    prev   TEXT    NOT NULL,
    header TEXT    NOT NULL,
    active BOOLEAN NOT NULL,
    PRIMARY KEY (hash)
);
CREATE INDEX sim_blocks_height ON sim_blocks (height, active);

-- Transactions of blocks, also of blocks that are no longer active. A transaction is in at most one active block.
-- Shared: sandbox only.
-- Writer: internal/sandbox/bitcoinsim
CREATE TABLE sim_block_txs (
    hash     TEXT   NOT NULL,
    position BIGINT NOT NULL,
    txid     TEXT   NOT NULL,
    PRIMARY KEY (hash, position)
);

-- Transactions of the simulated Bitcoin network.
-- Shared: sandbox only.
-- Writer: internal/sandbox/bitcoinsim
CREATE TABLE sim_txs (
    txid    TEXT   NOT NULL,
    raw     TEXT   NOT NULL, -- hex
    fee     BIGINT NOT NULL,
    state   TEXT   NOT NULL CHECK (state IN ('mempool', 'mined', 'dropped')),
    arrived BIGINT NOT NULL,
    PRIMARY KEY (txid)
);
CREATE INDEX sim_txs_state ON sim_txs (state, arrived);

-- Outputs of live transactions, with the live transaction that spends each.
-- Shared: sandbox only.
-- Writer: internal/sandbox/bitcoinsim
CREATE TABLE sim_outputs (
    txid     TEXT   NOT NULL,
    vout     BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    script   TEXT   NOT NULL,
    spent_by TEXT   NOT NULL,
    PRIMARY KEY (txid, vout)
);
CREATE INDEX sim_outputs_script ON sim_outputs (script, spent_by, amount);
CREATE INDEX sim_outputs_spent_by ON sim_outputs (spent_by);

-- Blocks of the simulated EVM networks.
-- Shared: sandbox only.
-- Writer: internal/sandbox/evmsim
CREATE TABLE sim_evm_blocks (
    network TEXT    NOT NULL,
    hash    TEXT    NOT NULL,
    height  BIGINT  NOT NULL,
    prev    TEXT    NOT NULL,
    mined   BIGINT  NOT NULL,
    active  BOOLEAN NOT NULL,
    PRIMARY KEY (network, hash)
);
CREATE INDEX sim_evm_blocks_height ON sim_evm_blocks (network, active, height);

-- Transactions of the simulated EVM networks, with what each changed, so that a block can be reverted.
-- Shared: sandbox only.
-- Writer: internal/sandbox/evmsim
CREATE TABLE sim_evm_txs (
    network TEXT    NOT NULL,
    txid    TEXT    NOT NULL,
    sender  TEXT    NOT NULL,
    nonce   BIGINT  NOT NULL,
    raw     TEXT    NOT NULL,
    state   TEXT    NOT NULL CHECK (state IN ('mempool', 'mined', 'dropped')),
    block   TEXT    NOT NULL,
    place   BIGINT  NOT NULL,
    failed  BOOLEAN NOT NULL,
    fee     BIGINT  NOT NULL,
    authorized TEXT NOT NULL, -- payer and nonce of the authorization (EIP-3009) that it submits, or ''
    PRIMARY KEY (network, txid)
);
CREATE INDEX sim_evm_txs_authorized ON sim_evm_txs (network, authorized) WHERE authorized <> '';
CREATE INDEX sim_evm_txs_sender ON sim_evm_txs (network, sender, nonce);
CREATE INDEX sim_evm_txs_state ON sim_evm_txs (network, state);
CREATE INDEX sim_evm_txs_block ON sim_evm_txs (network, block, place);

-- Accounts and their next nonce on the active chain.
-- Shared: sandbox only.
-- Writer: internal/sandbox/evmsim
CREATE TABLE sim_evm_accounts (
    network TEXT   NOT NULL,
    address TEXT   NOT NULL,
    nonce   BIGINT NOT NULL,
    PRIMARY KEY (network, address)
);

-- Balances on the active chain.
-- Shared: sandbox only.
-- Writer: internal/sandbox/evmsim
CREATE TABLE sim_evm_balances (
    network TEXT   NOT NULL,
    address TEXT   NOT NULL,
    asset   TEXT   NOT NULL,
    amount  BIGINT NOT NULL,
    PRIMARY KEY (network, address, asset)
);
