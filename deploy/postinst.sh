#!/bin/sh
# Runs after the Debian package was unpacked. It starts nothing: the settings come first.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers stipend.conf
elif ! getent passwd stipend >/dev/null; then
	useradd --system --home-dir /var/lib/stipend --no-create-home --shell /usr/sbin/nologin stipend
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ -n "$2" ]; then # the version before an upgrade
		systemctl try-restart stipend.service
	fi
fi
