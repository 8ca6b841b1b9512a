-- +goose Up

-- The names and emails of recipients, by the row number that the trigram index refers to. The number is declared, because
-- VACUUM may change a rowid that is not. Triggers update both.
-- Writer: internal/payee
CREATE TABLE recipient_texts (
    text_id      INTEGER PRIMARY KEY,
    company_id   TEXT NOT NULL,
    recipient_id TEXT NOT NULL,
    name_key     TEXT NOT NULL,
    email_key    TEXT NOT NULL,
    UNIQUE (company_id, recipient_id)
);
CREATE VIRTUAL TABLE recipient_trigrams USING fts5 (
    name_key, email_key, content = 'recipient_texts', content_rowid = 'text_id', tokenize = 'trigram case_sensitive 1', detail = 'none', columnsize = 0
);

-- +goose StatementBegin
CREATE TRIGGER recipient_texts_of_new AFTER INSERT ON recipients BEGIN
    INSERT INTO recipient_texts (company_id, recipient_id, name_key, email_key) VALUES (new.company_id, new.recipient_id, new.name_key, new.email_key);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER recipient_texts_of_changed AFTER UPDATE OF name_key, email_key ON recipients
WHEN old.name_key <> new.name_key OR old.email_key <> new.email_key BEGIN
    UPDATE recipient_texts SET name_key = new.name_key, email_key = new.email_key
    WHERE company_id = new.company_id AND recipient_id = new.recipient_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER recipient_trigrams_of_new AFTER INSERT ON recipient_texts BEGIN
    INSERT INTO recipient_trigrams (rowid, name_key, email_key) VALUES (new.text_id, new.name_key, new.email_key);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER recipient_trigrams_of_changed AFTER UPDATE ON recipient_texts BEGIN
    INSERT INTO recipient_trigrams (recipient_trigrams, rowid, name_key, email_key) VALUES ('delete', old.text_id, old.name_key, old.email_key);
    INSERT INTO recipient_trigrams (rowid, name_key, email_key) VALUES (new.text_id, new.name_key, new.email_key);
END;
-- +goose StatementEnd
