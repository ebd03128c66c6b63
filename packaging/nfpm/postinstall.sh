#!/bin/sh
# After installation or upgrade, .deb and .rpm. Neither starts nor restarts
# rhid: a restart withdraws every VIP of the host, and when that may happen is
# for people to say.
set -e

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers rhid.conf
elif ! getent passwd rhid >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/rhid --no-create-home --shell /usr/sbin/nologin rhid
fi

# The configuration names files with passwords.
chown root:rhid /etc/rhid
chmod 0750 /etc/rhid

# See rhid.service.
dropin=/etc/systemd/system/rhid.service.d/before-253.conf
version=$(systemctl --version 2>/dev/null | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
if [ -n "$version" ] && [ "$version" -lt 253 ]; then
	mkdir -p "${dropin%/*}"
	ln -sf /usr/lib/rhid/before-253.conf "$dropin"
else
	rm -f "$dropin"
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	/usr/lib/systemd/systemd-sysctl 60-rhid.conf || true # read-only in a container
	if systemctl is-active --quiet rhid.service; then
		echo 'rhid: the running daemon is still the old one; "systemctl restart rhid" drains it and starts the new one'
	fi
fi
