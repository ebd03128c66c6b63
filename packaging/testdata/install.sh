#!/bin/sh
# install.sh DEB, in a mount namespace of its own: installs and purges the
# package on a throwaway layer over this machine's root, and says what it found.
set -eu
deb=$1
layer=$(mktemp -d)
trap 'cd /; umount -R -l "$layer" 2>/dev/null || true; rmdir "$layer"' EXIT
mount --make-rprivate /
mount -t tmpfs rhid "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay rhid -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
mount --rbind /proc "$layer/root/proc"
mount --rbind /dev "$layer/root/dev"
# A running systemd would be asked to reload: stand in for it, and keep a record.
mkdir -p "$layer/root/run/systemd/system"
cat >"$layer/root/usr/bin/systemctl" <<'FAKE'
#!/bin/sh
case $1 in
--version) echo "systemd ${SYSTEMD:-252} (252)" ;;
is-active) exit 0 ;;
*) echo "systemctl $*" >>/systemctl.log ;;
esac
FAKE
printf '#!/bin/sh\nexit 0\n' >"$layer/root/usr/lib/systemd/systemd-sysctl"
cp "$deb" "$layer/root/rhid.deb"
in_root() { chroot "$layer/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
dropin=/etc/systemd/system/rhid.service.d/before-253.conf

in_root dpkg -i /rhid.deb
in_root getent passwd rhid | awk -F: '{print "user: " $1, $6, $7}'
in_root stat -c 'config: %U:%G %a' /etc/rhid
in_root test "$(in_root readlink -f $dropin)" = /usr/lib/rhid/before-253.conf
in_root env SYSTEMD=253 dpkg -i /rhid.deb
in_root test ! -e $dropin
in_root dpkg -i /rhid.deb
grep -E 'restart|start |enable' "$layer/root/systemctl.log" || echo 'restart by the package: none'

in_root mkdir -p /var/lib/rhid
in_root dpkg --purge rhid
grep -Fx 'systemctl --no-reload disable --now rhid.service' "$layer/root/systemctl.log"
in_root sh -c 'ls -d /usr/bin/rhid /usr/lib/rhid /usr/lib/systemd/system/rhid.service /etc/rhid /var/lib/rhid /etc/systemd/system/rhid.service.d 2>/dev/null' || echo 'after purge: no files'
