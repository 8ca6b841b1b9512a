#!/bin/sh
# Runs before the Debian package is removed or replaced. An upgrade restarts the service after the new version was unpacked.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now stipend.service
fi
