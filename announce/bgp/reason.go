package bgp

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// DownKind is why a session is not established.
type DownKind string

// The kinds of reasons.
const (
	DownHoldTimer     DownKind = "hold_timer_expired"
	DownReceived      DownKind = "notification_received"
	DownSent          DownKind = "notification_sent"
	DownPrefixes      DownKind = "too_many_prefixes"
	DownClosed        DownKind = "connection_lost"
	DownDial          DownKind = "connect_failed"
	DownSetup         DownKind = "setup_failed"
	DownConfiguration DownKind = "configuration_changed"
	DownStopped       DownKind = "stopped"
	DownBFD           DownKind = "bfd_down"
)

// Down is the reason why a session is not established. Code and Subcode are
// those of the NOTIFICATION (RFC 4271, 4486) for the two notification kinds.
type Down struct {
	Kind    DownKind  `json:"kind"`
	Code    uint8     `json:"code,omitempty"`
	Subcode uint8     `json:"subcode,omitempty"`
	Text    string    `json:"text"` // for people; with the words of the other side where it sent some
	At      time.Time `json:"at"`
}

// notification is one that was seen by the log bridge.
type notification struct {
	code, subcode uint8
	message       string // RFC 8203
}

func (n notification) text() string {
	t := notificationName(n.code, n.subcode)
	if n.message != "" {
		t += fmt.Sprintf(", %q", n.message)
	}
	return t
}

// notificationName names a NOTIFICATION by its registered names.
func notificationName(code, subcode uint8) string {
	main := [...]string{1: "message header error", 2: "OPEN message error", 3: "UPDATE message error", 4: "hold timer expired", 5: "state machine error", 6: "cease", 7: "ROUTE-REFRESH message error"}
	subs := [...][]string{
		1: {1: "connection not synchronized", 2: "bad message length", 3: "bad message type"},
		2: {1: "unsupported version", 2: "bad peer AS", 3: "bad BGP identifier", 4: "unsupported optional parameter", 6: "unacceptable hold time", 7: "unsupported capability", 11: "role mismatch"},
		3: {1: "malformed attribute list", 2: "unrecognized well-known attribute", 3: "missing well-known attribute", 4: "attribute flags error", 5: "attribute length error", 6: "invalid ORIGIN", 8: "invalid NEXT_HOP", 9: "optional attribute error", 10: "invalid network field", 11: "malformed AS_PATH"},
		5: {1: "unexpected message in OpenSent", 2: "unexpected message in OpenConfirm", 3: "unexpected message in Established"},
		6: {1: "maximum number of prefixes reached", 2: "administrative shutdown", 3: "peer de-configured", 4: "administrative reset", 5: "connection rejected", 6: "other configuration change", 7: "connection collision resolution", 8: "out of resources", 9: "hard reset", 10: "BFD down"},
		7: {1: "invalid message length"},
	}
	name := "unknown"
	if int(code) < len(main) && main[code] != "" {
		name = main[code]
	}
	if int(code) < len(subs) && int(subcode) < len(subs[code]) && subs[code][subcode] != "" {
		name += ": " + subs[code][subcode]
	}
	return fmt.Sprintf("%s (%d/%d)", name, code, subcode)
}

// downReason turns the reason of GoBGP's state machine for going to Idle into
// a Down. received and sent are the last notifications seen, if any.
func downReason(reason string, established bool, hold time.Duration, received, sent *notification) Down {
	word, _, _ := strings.Cut(reason, " ")
	switch {
	case word == "notification-received" && received != nil:
		return Down{Kind: DownReceived, Code: received.code, Subcode: received.subcode,
			Text: "the neighbour ended the session: " + received.text()}
	case word == "hold-timer-expired", sent != nil && sent.code == 4:
		return Down{Kind: DownHoldTimer, Code: 4, Text: fmt.Sprintf("hold timer expired: nothing heard for %v", hold)}
	case sent != nil:
		return Down{Kind: DownSent, Code: sent.code, Subcode: sent.subcode, Text: "this host ended the session: " + sent.text()}
	case word == "read-failed" && !established:
		return Down{Kind: DownSetup, Text: "the neighbour closed the connection during the setup of the session; is this host configured there?"}
	case word == "read-failed":
		return Down{Kind: DownClosed, Text: "connection lost: closed by the neighbour, or reset"}
	case word == "write-failed":
		return Down{Kind: DownClosed, Text: "connection lost: the neighbour took nothing for the hold time, or reset it"}
	case word == "invalid-msg":
		return Down{Kind: DownSetup, Text: "the neighbour sent no valid OPEN"}
	default:
		return Down{Kind: DownSetup, Text: "session setup failed: " + reason}
	}
}

// dialReason turns the error of a failed connect into a Down. With MD5 the
// kernel ignores the unsigned reset of a router that does not listen.
func dialReason(err error, md5 bool) Down {
	text := err.Error()
	var errno syscall.Errno
	var ne net.Error
	switch {
	case errors.As(err, &errno):
		text = errno.Error() // "connection refused", "no route to host"
	case errors.As(err, &ne) && ne.Timeout():
		text = "timed out"
		if md5 {
			text = "timed out: no route, nobody listens there, or another MD5 password"
		}
	}
	return Down{Kind: DownDial, Text: text}
}
