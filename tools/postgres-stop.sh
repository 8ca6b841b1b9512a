#!/bin/sh
# Stops the PostgreSQL server that test binaries share (internal/db/dbtest), unless one of them still uses it.
set -eu
cd "$(dirname "$0")/../.tools/pg" 2>/dev/null || exit 0
[ -s dir ] || exit 0

# Each user holds a shared lock until it exits. The server's own lock is taken first, so that a new user does not find a server
# that is stopping.
exec 8>lock 9>users
flock 8
flock --nonblock 9 || exit 0

dir=$(cat dir)
case ${dir##*/} in stipend-pg-*) ;; *) exit 0 ;; esac
pidfile=$dir/data/postmaster.pid
if [ -s "$pidfile" ]; then
	kill -INT "$(head -n 1 "$pidfile")" 2>/dev/null || true
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		[ -e "$pidfile" ] || break
		sleep 0.1
	done
fi
rm -rf "$dir"
rm -f dir server.json
