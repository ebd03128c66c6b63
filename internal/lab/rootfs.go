package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// scratch is where a node's root is put together, inside its own mount
// namespace, before it becomes the root. It must exist on the host.
const scratch = "/mnt"

// tree is a mount taken from the host before the node's root changed, with the
// place where it goes.
type tree struct {
	fd   int
	bind bind
	dir  bool
}

// grab takes what b names from the host, detached.
func grab(b bind) (tree, error) {
	st, err := os.Stat(b.source)
	if err != nil {
		return tree{}, fmt.Errorf("bind to %s: %w", b.target, err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, b.source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("bind %s to %s: %w", b.source, b.target, err)
	}
	return tree{fd: fd, bind: b, dir: st.IsDir()}, nil
}

// put mounts the tree at its place in the node's root.
func (t tree) put() error {
	err := makeMountPoint(t.bind.target, t.dir)
	if err == nil {
		err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.bind.target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err == nil && t.bind.readOnly {
		err = unix.Mount("", t.bind.target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	if err = errors.Join(err, unix.Close(t.fd)); err != nil {
		return fmt.Errorf("binding %s to %s: %w", t.bind.source, t.bind.target, err)
	}
	return nil
}

func makeMountPoint(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// buildRoot gives the calling thread's mount namespace, which must be a fresh
// copy of the host's, a root of its own with binds in it.
func buildRoot(hostname string, binds []bind) error {
	// nothing that is mounted from here on may show up on the host
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	var trees []tree
	for _, dev := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		binds = append(binds, bind{source: "/dev/" + dev, target: "/dev/" + dev})
	}
	for _, b := range binds {
		t, err := grab(b)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	if err := pivotToOverlay(); err != nil {
		return err
	}
	if err := mountOwn(); err != nil {
		return err
	}
	for _, t := range trees {
		if err := t.put(); err != nil {
			return err
		}
	}
	if err := mountProc(); err != nil {
		return err
	}
	return errors.Join(makeRunDirs(), nameNode(hostname))
}

// pivotToOverlay makes an overlay of the host's root file system the root;
// what is written goes to memory.
func pivotToOverlay() error {
	if err := unix.Mount("lab", scratch, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting memory at %s: %w", scratch, err)
	}
	upper, work, root := scratch+"/upper", scratch+"/work", scratch+"/root"
	for _, d := range []string{upper, work, root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	opts := "lowerdir=/,upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("lab", root, "overlay", 0, opts); err != nil {
		return fmt.Errorf("mounting an overlay of the root: %w", err)
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	// both arguments the same: the old root ends up on top of the new one and
	// can be detached at once (pivot_root(2), NOTES)
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return unix.Chdir("/")
}

// mountOwn mounts the file systems that every node has empty.
func mountOwn() error {
	mounts := []struct{ fs, path, data string }{
		{"tmpfs", "/run", "mode=755"},
		{"tmpfs", "/tmp", "mode=1777"},
		{"tmpfs", "/var/tmp", "mode=1777"},
		{"tmpfs", "/var/log", "mode=755"},
		{"tmpfs", "/dev", "mode=755"},
		{"tmpfs", "/dev/shm", "mode=1777"},
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=620"},
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.fs, m.path, m.fs, unix.MS_NOSUID, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.path, err)
		}
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mounting /sys: %w", err)
	}
	links := [][2]string{
		{"pts/ptmx", "/dev/ptmx"}, {"/proc/self/fd", "/dev/fd"},
		{"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
	}
	for _, l := range links {
		if err := os.Symlink(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts /proc of the node's pid namespace, with a process that is in
// it: the calling thread is not.
func mountProc() error {
	if out, err := exec.Command("mount", "-n", "-t", "proc", "proc", "/proc").CombinedOutput(); err != nil {
		return fmt.Errorf("mounting /proc: %w: %s", err, out)
	}
	return nil
}

// sealProc makes /proc/sys read-only, as it is in an unprivileged container.
func sealProc() error {
	if err := unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding /proc/sys: %w", err)
	}
	if err := unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("making /proc/sys read-only: %w", err)
	}
	return nil
}

// makeRunDirs makes the directories that packages expect under /run and
// /var/log, which systemd or the image makes elsewhere.
func makeRunDirs() error {
	dirs := []struct{ path, owner string }{
		{"/run/frr", "frr"}, {"/var/log/frr", "frr"}, {"/var/lib/frr", "frr"},
		{"/run/bird", "bird"}, {"/run/haproxy", "haproxy"}, {"/run/lock", "root"}, {"/run/rhid", "root"},
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d.path, 0o755); err != nil {
			return err
		}
		u, err := user.Lookup(d.owner)
		if err != nil {
			continue // that program is not installed, so nobody needs it
		}
		uid, uerr := strconv.Atoi(u.Uid)
		gid, gerr := strconv.Atoi(u.Gid)
		if err := errors.Join(uerr, gerr, os.Chown(d.path, uid, gid)); err != nil {
			return fmt.Errorf("giving %s to %s: %w", d.path, d.owner, err)
		}
	}
	return nil
}

func nameNode(hostname string) error {
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	hosts := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 " + hostname + "\n"
	return errors.Join(
		os.WriteFile("/etc/hostname", []byte(hostname+"\n"), 0o644),
		os.WriteFile("/etc/hosts", []byte(hosts), 0o644))
}
