//go:build integration

package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// userManager runs a real systemd as a user's manager, in a mount namespace
// that looks as if the host had been booted with one. The tests need none of
// the host's own.
const userManager = `
mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system || exit 1
group=/sys/fs/cgroup/rhid-unit-$$
mkdir $group || exit 1
sh -c 'echo $$ >"$0/cgroup.procs" && exec /lib/systemd/systemd --user --log-target=null' $group &
echo $! >manager.pid
trap 'kill -TERM $(cat manager.pid)' TERM
wait; wait
find $group -depth -type d -exec rmdir {} +
`

// units are those that the manager has.
func units() map[string]string {
	return map[string]string{
		"good.service":    "[Service]\nExecStart=/bin/sleep 1000\n",
		"bad.service":     "[Service]\nExecStart=/bin/false\n",
		"slow.service":    "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep 1000\n",
		"stopped.service": "[Service]\nExecStart=/bin/sleep 1000\n",
		"dbus.socket":     "[Socket]\nListenStream=%t/bus\n",
		"dbus.service":    "[Service]\nType=notify\nExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation\n",
	}
}

// startManager starts the manager and its units, and returns its directory.
func startManager(t *testing.T) (dir string) {
	t.Helper()
	dir = ownedDir(t, "root")
	config := filepath.Join(dir, "systemd", "user")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range units() {
		keep(t, "root", filepath.Join(config, name), text)
	}
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir)
	cmd := exec.Command("unshare", "--mount", "sh", "-c", userManager)
	cmd.Dir, cmd.Env = dir, env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the shell's status is that of the signal
	})
	private := filepath.Join(dir, "systemd", "private")
	eventually(t, "systemd listens", func() bool {
		_, err := os.Stat(private)
		return err == nil
	})
	for _, args := range []string{"start dbus.socket dbus.service good.service", "--no-block start bad.service slow.service"} {
		ctl := exec.Command("systemctl", append([]string{"--user"}, strings.Fields(args)...)...)
		ctl.Env = env
		if out, err := ctl.CombinedOutput(); err != nil {
			t.Fatalf("systemctl %s: %v: %s", args, err, out)
		}
	}
	return dir
}

func TestUnitSicknesses(t *testing.T) {
	dir := startManager(t)
	private, bus := filepath.Join(dir, "systemd", "private"), filepath.Join(dir, "bus")
	unit := func(name string, states ...string) *UnitOptions {
		return &UnitOptions{Unit: name, States: states, Socket: private}
	}
	onBus := &UnitOptions{Unit: "good.service", Socket: bus}
	eventually(t, "the unit failed", func() bool { return probeOnce(t, unit("bad.service", "failed"), here(probeLimit)).OK })
	eventually(t, "systemd is on the bus", func() bool { return probeOnce(t, onBus, here(probeLimit)).OK })
	pid, err := strconv.Atoi(strings.TrimSpace(contents(t, filepath.Join(dir, "manager.pid"))))
	if err != nil {
		t.Fatal(err)
	}
	hung := func(t *testing.T) func() {
		command(t, "kill", "-STOP", strconv.Itoa(pid))
		eventually(t, "systemd stops", func() bool { return stopped(t, pid) })
		return func() { command(t, "kill", "-CONT", strconv.Itoa(pid)) }
	}
	missing := filepath.Join(dir, "missing")
	showSicknesses(t, "unit", []sickness{
		{name: "healthy", opts: unit("good.service"), to: here(probeLimit), ok: true, says: "good.service is active (running)"},
		{name: "healthy, over the bus", opts: onBus, to: here(probeLimit), ok: true, says: "good.service is active (running)"},
		{name: "healthy, meant to be off", opts: unit("stopped.service", "inactive"), to: here(probeLimit), ok: true, says: "stopped.service is inactive (dead)"},
		{name: "stopped", opts: unit("stopped.service"), to: here(probeLimit), cause: CauseAnswer, says: "stopped.service is inactive (dead), wanted active or reloading"},
		{name: "failed", opts: unit("bad.service"), to: here(probeLimit), cause: CauseAnswer, says: "bad.service is failed (failed), wanted active"},
		{name: "still starting", opts: unit("slow.service"), to: here(probeLimit), cause: CauseAnswer, says: "slow.service is activating (start), wanted active"},
		{name: "no such unit", opts: unit("haproxy-x.service"), to: here(probeLimit), cause: CauseAnswer, says: "there is no unit haproxy-x.service"},
		{name: "no systemd", opts: &UnitOptions{Unit: "good.service", Socket: missing}, to: here(probeLimit), cause: CauseInternal, says: "no such file or directory"},
		{name: "hung systemd", opts: unit("good.service"), to: here(shortLimit), makes: hung, cause: CauseTimeout, says: "systemd did not answer within 300ms"},
		{name: "hung systemd, over the bus", opts: onBus, to: here(shortLimit), makes: hung, cause: CauseTimeout, says: "systemd did not answer within 300ms"},
	})
}
