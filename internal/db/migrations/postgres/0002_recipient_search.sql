-- +goose Up

-- Recipients are sorted by the bytes of these columns, whatever the locale of the database.
ALTER TABLE recipients ALTER COLUMN name_key TYPE TEXT COLLATE "C", ALTER COLUMN email_key TYPE TEXT COLLATE "C";

-- The index that finds any three or more characters of a name or an email. Without the extension the search is correct but reads all
-- recipients of the company; `stipend serve` warns about it, and docs/operating.md says how to add both later.
-- +goose StatementBegin
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX recipients_by_trigram ON recipients USING gin (name_key gin_trgm_ops, email_key gin_trgm_ops);
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
        RAISE NOTICE 'recipients are searched without an index: %', SQLERRM;
END
$$;
-- +goose StatementEnd
