#!/bin/sh
# After removal: dpkg says "remove" and "purge", rpm 0. The user stays: files
# with its number may be left.
set -e
case ${1:-} in
remove | purge | 0)
	dropin=/etc/systemd/system/rhid.service.d/before-253.conf
	if [ -L "$dropin" ]; then
		rm -f "$dropin"
		rmdir --ignore-fail-on-non-empty "${dropin%/*}"
	fi
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
	fi
	;;
esac
if [ "${1:-}" = purge ]; then
	rm -rf /var/lib/rhid
fi
