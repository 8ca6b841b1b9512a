-- +goose Up

-- What belongs to a user may have been made for a company, which hears of what happens to it: company_id, '' where nobody does.
ALTER TABLE payers ADD COLUMN company_id TEXT NOT NULL DEFAULT '';
UPDATE payers SET company_id = owner_id WHERE SUBSTR(owner_id, 1, 4) = 'com_';
UPDATE payers SET company_id = COALESCE((SELECT u.company_id FROM users u WHERE u.user_id = payers.owner_id), '') WHERE company_id = '';

ALTER TABLE transfers ADD COLUMN company_id TEXT NOT NULL DEFAULT '';
UPDATE transfers SET company_id = owner_id WHERE SUBSTR(owner_id, 1, 4) = 'com_';
UPDATE transfers SET company_id = COALESCE((SELECT f.company_id FROM funding_accounts f
    WHERE f.owner_id = transfers.owner_id AND f.currency = transfers.currency), '') WHERE company_id = '' AND owner_id <> '';
