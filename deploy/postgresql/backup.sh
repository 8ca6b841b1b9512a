#!/bin/sh
# Makes a base backup of a PostgreSQL server, from which restore.sh recovers it to a point in time, and checks it.
#   backup.sh DIRECTORY [option of pg_basebackup]…
# DIRECTORY is new, such as /mnt/backup/base/2026-07-01. PGHOST, PGPORT, PGUSER and PGPASSFILE name the server and a role with the
# attribute REPLICATION. Run it daily, and delete base backups, and WAL files older than the oldest one, after your term.
set -eu
[ $# -ge 1 ] || {
	echo "usage: backup.sh DIRECTORY [option of pg_basebackup]..." >&2
	exit 2
}
directory=$1
shift
[ ! -e "$directory" ] || {
	echo "backup.sh: $directory exists; name a new directory" >&2
	exit 1
}
umask 077
pg_basebackup --pgdata="$directory.part" --format=plain --wal-method=stream --checkpoint=fast "$@"
pg_verifybackup "$directory.part" >&2
mv "$directory.part" "$directory"
echo "The base backup is in $directory."
