#!/bin/sh
# Copies a WAL file of PostgreSQL to an archive, as the setting archive_command of the server:
#   archive_command = '/path/to/archive.sh %p %f /mnt/backup/wal'
# The copy is complete and durable when it has its name. A file of the same name with another content is an error: two
# servers must not share an archive.
set -eu
[ $# = 3 ] || {
	echo "usage: archive.sh FILE NAME ARCHIVE" >&2
	exit 2
}
if [ -e "$3/$2" ]; then
	cmp -s "$1" "$3/$2" || {
		echo "archive.sh: $3/$2 exists and differs" >&2
		exit 1
	}
	exit
fi
cp "$1" "$3/.$2.part"
sync "$3/.$2.part"
mv "$3/.$2.part" "$3/$2"
sync "$3"
