package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"rhid/checks"
)

// hostName is an RFC 1123 host name; underscores are in use, too.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?$`)

// ParseTarget reads a check's target, as servers.addresses and check.address
// have it: address:port for checks.TargetPort, an address for
// checks.TargetHost, either for the other kinds. An address may be a name.
// Source and Limit are left to the caller.
func ParseTarget(kind checks.TargetKind, text string) (checks.Target, error) {
	host, portText, err := splitTarget(text)
	if err != nil {
		return checks.Target{}, err
	}
	if err := checkHost(host); err != nil {
		return checks.Target{}, err
	}
	switch {
	case kind == checks.TargetPort && portText == "":
		return checks.Target{}, fmt.Errorf("%q has no port; write %s", text, net.JoinHostPort(host, "PORT"))
	case kind == checks.TargetHost && portText != "":
		return checks.Target{}, fmt.Errorf("%q has a port, which a check of this type does not use; write %s", text, host)
	case portText == "":
		return checks.Target{Host: host}, nil
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return checks.Target{}, fmt.Errorf("%q has no port between 1 and 65535", text)
	}
	return checks.Target{Host: host, Port: uint16(port)}, nil
}

// splitTarget takes host and port apart; port is empty where there is none.
func splitTarget(text string) (host, port string, err error) {
	if text == "" {
		return "", "", errors.New("must not be empty")
	}
	if a, err := netip.ParseAddr(text); err == nil { // an IPv6 address has colons of its own
		return a.String(), "", nil
	}
	if !strings.Contains(text, ":") {
		return text, "", nil
	}
	host, port, err = net.SplitHostPort(text)
	if err != nil || port == "" {
		return "", "", fmt.Errorf("%q is not an address and port like 10.0.0.1:80 or [fd00::1]:80", text)
	}
	return host, port, nil
}

func checkHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	_, lastIsNumber := strconv.Atoi(labels[len(labels)-1])
	if len(host) > 253 || !hostName.MatchString(host) || lastIsNumber == nil {
		return fmt.Errorf("%q is neither an IP address nor a host name", host)
	}
	return nil
}

// sameTarget is a form of the target in which equal ones are equal.
func sameTarget(t checks.Target) string {
	host := strings.ToLower(strings.TrimSuffix(t.Host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.Port)))
}
