#!/usr/bin/env bash
# Installs the Debian packages that the tests need. Looks first and does
# nothing when all is there; run it as often as you like.
#
#   scripts/install-test-deps.sh           install what is missing (root, apt)
#   scripts/install-test-deps.sh --check   list the packages that are missing; status 1 if any
set -euo pipefail

# Package, and a file or command that tells that it is there. Files are named
# where a command of that name may come from elsewhere.
needs() {
	cat <<'LIST'
frr             /usr/lib/frr/zebra
frr             /usr/lib/frr/bgpd
frr             /usr/lib/frr/ospfd
frr             /usr/lib/frr/ospf6d
frr             /usr/lib/frr/bfdd
frr             vtysh
bird2           bird
bird2           birdc
haproxy         haproxy
socat           socat
openssl         openssl
freeradius      freeradius
vsftpd          vsftpd
exim4-daemon-light exim4
dnsmasq-base    dnsmasq
postgresql      pg_createcluster
mariadb-server  mariadbd
slapd           slapd
iproute2        ip
iproute2        ss
nftables        nft
tcpdump         tcpdump
iputils-ping    ping
procps          sysctl
procps          pgrep
util-linux      unshare
util-linux      nsenter
mount           mount
systemd         systemd-analyze
dbus            dbus-daemon
rpm             rpm
ca-certificates /etc/ssl/certs/ca-certificates.crt
gcc             gcc
libc6-dev       /usr/include/stdio.h
LIST
}

# Routing daemons and iproute2 are in sbin, which a user's PATH may lack.
PATH=$PATH:/usr/sbin:/sbin

missing() {
	local package what
	needs | while read -r package what; do
		case $what in
		/*) [ -e "$what" ] || echo "$package" ;;
		*) command -v "$what" >/dev/null || echo "$package" ;;
		esac
	done | sort -u
}

die() {
	echo "install-test-deps: $*" >&2
	exit 1
}

mapfile -t packages < <(missing)
if [ "${1:-}" = --check ]; then
	[ ${#packages[@]} -eq 0 ] || { printf '%s\n' "${packages[@]}"; exit 1; }
	exit 0
fi
[ $# -eq 0 ] || die "unknown argument $1; it takes --check or nothing"
[ ${#packages[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || die "missing: ${packages[*]}; no apt-get here, install what corresponds to these Debian packages by hand"
[ "$(id -u)" -eq 0 ] || die "missing: ${packages[*]}; run this script as root"

# The tests start their own daemons, with their own configuration, in network
# namespaces. Those of the packages must not start beside them.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi

echo "install-test-deps: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 -o Acquire::Retries=3)
# For the lists there is no such patience with another apt-get, which a machine
# that was just started may run by itself.
for try in 1 2 3 4 5 6; do
	"${apt[@]}" update && break
	[ "$try" -lt 6 ] || die "apt-get update failed $try times"
	sleep 10
done
"${apt[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null

mapfile -t packages < <(missing)
[ ${#packages[@]} -eq 0 ] || die "installed, and still missing: ${packages[*]}"
