package lab

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// capNumbers has the capabilities a topology file can add.
var capNumbers = map[string]int{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID, "KILL": unix.CAP_KILL, "SETGID": unix.CAP_SETGID,
	"SETUID": unix.CAP_SETUID, "SETPCAP": unix.CAP_SETPCAP, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"NET_BROADCAST": unix.CAP_NET_BROADCAST, "NET_ADMIN": unix.CAP_NET_ADMIN, "NET_RAW": unix.CAP_NET_RAW,
	"IPC_LOCK": unix.CAP_IPC_LOCK, "SYS_CHROOT": unix.CAP_SYS_CHROOT, "SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_NICE": unix.CAP_SYS_NICE, "SYS_RESOURCE": unix.CAP_SYS_RESOURCE,
	"SYS_TIME": unix.CAP_SYS_TIME, "MKNOD": unix.CAP_MKNOD, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
	"SETFCAP": unix.CAP_SETFCAP, "BPF": unix.CAP_BPF, "PERFMON": unix.CAP_PERFMON,
}

// containerCaps are those an unprivileged container has without cap-add.
func containerCaps() []string {
	return []string{
		"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID",
		"SETFCAP", "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
	}
}

func capName(s string) string { return strings.TrimPrefix(strings.ToUpper(s), "CAP_") }

// limitCaps drops everything but the container's capabilities and add from the
// calling thread's bounding set: what it starts afterwards cannot have more.
// The thread itself keeps what it has, for building the node.
func limitCaps(add []string) error {
	keep := map[int]bool{}
	for _, c := range append(containerCaps(), add...) {
		keep[capNumbers[capName(c)]] = true
	}
	for c := range unix.CAP_LAST_CAP + 1 {
		if keep[c] {
			continue
		}
		// EINVAL: a capability that this kernel does not know
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	return nil
}
