-- +goose Up

-- What each account of a company held when a month was over. Nothing is booked in a month that is over, so a row that the lines do not
-- bear out any more says that somebody changed them.
CREATE TABLE month_closes (
    company_id TEXT   NOT NULL,
    month      TEXT   NOT NULL, -- 2026-01
    code       TEXT   NOT NULL,
    asset      TEXT   NOT NULL,
    balance    BIGINT NOT NULL, -- debits less credits of all lines up to the end of the month
    closed_at  BIGINT NOT NULL,
    PRIMARY KEY (company_id, month, code, asset)
);
