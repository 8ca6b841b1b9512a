#!/bin/sh
# Prepares a new data directory of PostgreSQL that recovers a base backup to a point in time.
#   restore.sh BASE WAL DATA [TIME]
# BASE is a directory of backup.sh, WAL the archive of archive.sh, DATA the new data directory. TIME, such as
# "2026-07-01 14:30:00+00", is the moment before the disaster; without it, everything in the archive is recovered. Run it as the
# user of the server, which must have the same major version.
set -eu
[ $# = 3 ] || [ $# = 4 ] || {
	echo "usage: restore.sh BASE WAL DATA [TIME]" >&2
	exit 2
}
base=$1 wal=$2 data=$3 time=${4:-}
for directory in "$base" "$wal"; do
	[ -d "$directory" ] || {
		echo "restore.sh: there is no directory $directory" >&2
		exit 1
	}
done
case $wal$time in
*[\'%]*)
	echo "restore.sh: the archive and the time must not contain ' or %" >&2
	exit 1
	;;
esac
[ ! -e "$data" ] || {
	echo "restore.sh: $data exists; move it away, it may have payments that the backup lacks" >&2
	exit 1
}
pg_verifybackup "$base" >&2
umask 077
cp -a "$base" "$data"
chmod 700 "$data"
cat >>"$data/postgresql.auto.conf" <<END
restore_command = 'cp "$wal/%f" "%p"'
recovery_target_action = 'promote'
# Always set, because the server of the backup may have been recovered to a point in time itself.
recovery_target_time = '$time'
END
# The recovered server must not write to the archive of the old one before somebody has decided that it takes its place.
echo "archive_mode = off" >>"$data/postgresql.auto.conf"
touch "$data/recovery.signal"
cat <<END
$data is ready. What to do next:
  1. Start the server on it, and wait until its log says "archive recovery complete".
  2. Before any process of Stipend serves it, run: stipend restored --database-url postgres://…
     It pauses payouts and prints how to find those made since, so that nobody is paid twice.
  3. Remove restore_command and recovery_target_time from $data/postgresql.auto.conf. Set archive_mode and
     archive_command again, with a new archive, and make a base backup.
END
