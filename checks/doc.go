// Package checks finds out whether servers and links work. It runs probers on
// a fixed schedule, applies rise and fall, and joins the results of a pool of
// servers into one answer. It does not know what a VIP or a route is.
//
// # What it promises
//
// One check cannot harm another. Each probe has its own goroutine and its own
// time limit; the scheduler starts probes and never waits for one. A probe
// that does not end at its timeout counts as failed there and then, and its
// check gets no second probe until the first has ended: each slot that passes
// meanwhile is one more failure. A panic in a prober is a failed result.
//
// A check runs at fixed times: its phase follows from its ID, and all its
// slots are whole intervals away from it, so that the checks of a host are
// spread over the interval and stay so. A slot that was missed is skipped.
// While the state is in doubt (Health.InDoubt), fast_interval takes the place
// of interval.
//
// A state changes only by Rise or Fall results in a row, and each change is an
// Event that cannot be lost, however slow its reader is (Runner.Events). After
// the start a check is Unknown until then. A reload changes no state by
// itself, not even of a check whose settings changed.
//
// A pause of the whole process is nobody's failure: when the scheduler finds
// that it was woken far too late, failures of the probes that were under way
// are void and those probes are made again at once. This happens at most three
// times in a row for one check, so that a host that is always late cannot go
// blind.
//
// # What a result means
//
// Result.Cause is one of a few documented words, for alarms; Result.Detail is
// one sentence for people, without the target's name, which whoever prints it
// puts before it. CauseInternal says that the probing host is at fault, not
// the target: it has no file descriptor left, or may not send ICMP.
//
// # The probers
//
// Every probe makes a connection of its own and goes to the target directly.
// Names are looked up at each probe, within its time; the first address is
// taken. All probers leave from Target.Source where it is set. Everything that
// a target says is bounded: 64 KiB of a tcp answer, 64 KiB of HTTP headers,
// 256 KiB of a body, 1 MiB of a command's output.
//
// An exec check runs its command in a process group of its own, with a small
// environment, and kills the whole group with SIGKILL at the timeout, and what
// is left of the group when the command ends by itself. A process that leaves
// the group (setsid) escapes that; it can hold up nothing, but it lives on
// until the service manager ends the daemon's control group. A command that
// the kernel cannot kill, because it hangs in a dead file system, keeps its
// check failed and never runs a second time beside itself.
//
// The databases are asked no further than they answer without a password:
// postgres ends where the server asks for one, and mysql is refused one, because
// a MySQL server counts handshakes that break off and blocks the host they come
// from. An ldap check binds only as somebody with a password.
//
// Where a library reads what a target says (grpc, ldap, iso8583), it gets a
// bounded number of bytes, and a panic in our own goroutine over them is a
// failed probe: 256 KiB for grpc, 64 KiB for ldap, 8 KiB for a message of ISO
// 8583. Of the fields of such a message, none but type, STAN and response code
// ever reaches a sentence.
//
// The checks file, process and unit look at this host itself. Systemd is asked
// over its bus or its own socket, with a connection that ends with the probe.
//
// The checks interface, route and load look at this host itself. The first two
// ask the kernel over rtnetlink in the network namespace that they run in, and
// change nothing. A load check knows how busy the processors are from its
// second probe on.
//
// # Evidence
//
// A passive type makes no traffic; its probes count what became of that of
// others since the probe before (Result.Counts), and the rate rule judges it.
// haproxy-rate reads counters. tcp-diag and capture keep a watch between their
// probes (watchProbe), which a reload hands on: the packages sockdiag and
// capture know how, and know nothing of checks. A report check has no probes;
// Runner.Feed takes in what the daemon was told.
package checks
