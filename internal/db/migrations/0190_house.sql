-- +goose Up

-- What the house itself owns of each asset and has at hand: the credits less the debits of its equity, revenue and expense
-- accounts (3000 and above) over all companies, less what is at exchanges (1040). moves are what was booked since it was added up last; they are inserted only, so that no two pay
-- runs wait for one row unless one of them is to be paid out of it.
CREATE TABLE ledger_house (
    asset   TEXT   NOT NULL PRIMARY KEY,
    balance BIGINT NOT NULL
);
CREATE TABLE ledger_house_moves (
    company_id TEXT   NOT NULL,
    journal_id TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (company_id, journal_id, asset)
);
CREATE INDEX ledger_house_moves_of_asset ON ledger_house_moves (asset);
INSERT INTO ledger_house (asset, balance)
    SELECT asset, CAST(-SUM(amount) AS BIGINT) FROM ledger_lines WHERE code >= '3000' OR code = '1040' GROUP BY asset;

-- What the operator allows to be exchanged. least is what the house keeps of an asset; it is below 0 for currencies of banks
-- only. upper is how much it holds before it is to sell, most is what one destination may get at once; the largest number is no
-- bound. What the operator did at a bank or an exchange is booked once for each reference.
CREATE TABLE fx_limits (
    asset      TEXT   NOT NULL PRIMARY KEY,
    least      BIGINT NOT NULL,
    upper      BIGINT NOT NULL,
    most       BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE fx_bookings (
    booking_id TEXT   NOT NULL PRIMARY KEY, -- place, name and reference
    said       TEXT   NOT NULL,             -- what was booked
    booked_at  BIGINT NOT NULL
);

-- The price at which an output was exchanged: units of the other asset for one whole rate_base; '' where nothing was.
ALTER TABLE outputs ADD COLUMN rate_base TEXT NOT NULL DEFAULT '';
ALTER TABLE outputs ADD COLUMN rate TEXT NOT NULL DEFAULT '';

CREATE INDEX payments_to_exchange ON payments (company_id, payroll_id) WHERE state = 'on_hold' AND reason = 'conversion_unavailable';
