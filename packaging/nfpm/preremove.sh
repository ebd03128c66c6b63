#!/bin/sh
# Before removal: dpkg says "remove", rpm 0. At an upgrade rhid runs on.
set -e
case ${1:-} in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now rhid.service
	fi
	;;
esac
