package daemon

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// notifier speaks to systemd, and does nothing without it (sd_notify(3)).
type notifier struct {
	log      *slog.Logger
	watchdog bool
	progress uint64
}

func newNotifier(log *slog.Logger) *notifier {
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog setting of systemd is not usable", "error", err)
	}
	return &notifier{log: log, watchdog: err == nil && d > 0}
}

func (n *notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("systemd was not notified", "state", state, "error", err)
	}
}

func (n *notifier) ready()    { n.send(daemon.SdNotifyReady) }
func (n *notifier) stopping() { n.send(daemon.SdNotifyStopping) }

// reloading carries the monotonic time that Type=notify-reload asks for.
func (n *notifier) reloading() {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		n.log.Warn("reading the monotonic clock", "error", err)
		return
	}
	n.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, time.Duration(ts.Nano()).Microseconds()))
}

// alive feeds the watchdog, as long as checks make progress too: a loop that
// turns over checks that stand still must not pass for healthy.
func (n *notifier) alive(progress uint64) {
	if n.watchdog && progress != n.progress {
		n.progress = progress
		n.send(daemon.SdNotifyWatchdog)
	}
}
