package db

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/stipend/stipend/internal/apierr"
)

// Errors that callers of this package may receive.
var (
	// ErrRetryLater means that the transaction was not executed, or that its outcome is unknown.
	ErrRetryLater = apierr.New(apierr.Unavailable, "retry_later",
		"The service is busy. Repeat the same request, with the same Idempotency-Key, in a few seconds.")

	// ErrStorage means that the database has no space or memory left.
	ErrStorage = apierr.New(apierr.Unavailable, "storage_unavailable",
		"The service cannot store anything at the moment. Nothing was changed. Repeat the request later.")

	// ErrAfter means that [Page].After is not the ID of a row in the list.
	ErrAfter = apierr.New(apierr.Invalid, "invalid_parameter",
		"The list has no item with this cursor. Start again at the first page.").At("query", "cursor")

	// ErrConflict means that a guarded statement changed no row because another transaction has changed the object since
	// it was read. It wraps a fault instead of being one, so that errors.Is distinguishes it from other faults with the
	// code retry_later.
	ErrConflict = fmt.Errorf("db: concurrent change: %w", apierr.New(apierr.Unavailable, "retry_later",
		"Other requests kept changing the object. Repeat the request, with the same Idempotency-Key, in a few "+
			"seconds."))
)

// unavailable is an error of the database server. Clients receive the fault; operators see the error text, which
// contains the cause.
type unavailable struct {
	fault *apierr.Fault
	cause error
}

func (e *unavailable) Error() string {
	return "the database did not execute a transaction: " + e.cause.Error()
}

func (e *unavailable) Unwrap() []error { return []error{e.fault, e.cause} }

// Causes of ErrRetryLater.
var (
	errConnections = errors.New("no connection became free within 2 seconds")
	errQueued      = errors.New("it waited too long for other writes")
	errClosed      = errors.New("the process is stopping")
)

// IsUnique reports whether an error is the violation of a primary key or unique index.
func IsUnique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && (lite.Code() == 2067 || lite.Code() == 1555)
}

// IsCheck reports whether err, returned by a statement on a table, is the violation of a CHECK constraint of that
// table.
func IsCheck(err error, table string) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) { // the error may belong to an earlier queued statement on another table
		return pg.Code == "23514" && pg.TableName == table
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code() == 275
}

// isReadOnly reports whether the PostgreSQL server has become a standby.
func isReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25006"
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// isFault reports whether err was returned by the write function itself, rather than by a failed statement.
func isFault(err error) bool {
	_, ok := apierr.As(err)
	return ok
}

// retryable reports whether the same transaction may succeed if it is executed again.
func retryable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "40001", pg.Code == "40P01", pg.Code == "25006", pg.Code == "55P03",
			strings.HasPrefix(pg.Code, "57P0"), strings.HasPrefix(pg.Code, "08"):
			return true
		}
		return false
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code()&0xff == 5 || lite.Code()&0xff == 6 // BUSY, LOCKED
	}
	var network *net.OpError // the connection was lost
	return pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.As(err, &network)
}

// outcomeUnknown reports whether a commit that returned an error may have succeeded, because the connection was lost
// before the server answered.
func outcomeUnknown(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "57P0") || strings.HasPrefix(pg.Code, "08")
	}
	var lite *sqlite.Error
	return !errors.As(err, &lite) && !pgconn.SafeToRetry(err)
}

// classify wraps a database error in the fault that a client may see. It returns other errors unchanged.
func classify(err error) error {
	if err == nil || isFault(err) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "53100" || pg.Code == "53200") { // disk_full, out_of_memory
		return &unavailable{ErrStorage, err}
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) && (lite.Code()&0xff == 13 || lite.Code()&0xff == 7) { // FULL, NOMEM
		return &unavailable{ErrStorage, err}
	}
	var connect *pgconn.ConnectError
	if retryable(err) || errors.As(err, &connect) {
		return &unavailable{ErrRetryLater, err}
	}
	return err
}
