package lab

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Node is one node of a running lab. Its methods may be used from several
// goroutines. Those without an error result fail the test when they cannot do
// what they say (and panic in a lab that was not started for a test).
type Node struct {
	Name string

	lab   *Lab
	spec  NodeSpec
	hold  *holder
	exec  *thread // in all of the node's namespaces: starts commands, reads its files
	net   *thread // in its network namespace, the host's files: makes sockets, sets sysctls
	nsfd  int     // its network namespace
	nl    *netlink.Handle
	mu    sync.Mutex
	procs []*Proc
	links map[int]string // names of interfaces by index
}

// newNode makes a node without links and runs nothing in it.
func newNode(l *Lab, name string, spec NodeSpec, binds []bind) (n *Node, err error) {
	n = &Node{Name: name, lab: l, spec: spec, nsfd: -1, links: map[int]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("node %s: %w", name, err), n.close())
		}
	}()
	n.exec, err = newThread(func() error {
		if n.hold, err = startHolder(); err != nil {
			return err
		}
		if err := n.hold.enter(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC); err != nil {
			return err
		}
		return buildRoot(name, binds)
	})
	if err != nil {
		return n, err
	}
	if n.net, err = newThread(func() error { return n.hold.enter(unix.CLONE_NEWNET) }); err != nil {
		return n, err
	}
	return n, n.prepare()
}

// prepare sets sysctls and capabilities and opens netlink.
func (n *Node) prepare() error {
	var err error
	if n.nsfd, err = unix.Open(fmt.Sprintf("/proc/%d/ns/net", n.hold.pid()), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening the network namespace: %w", err)
	}
	if n.nl, err = netlink.NewHandleAt(netns.NsHandle(n.nsfd)); err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(n.spec.Sysctls)) {
		if err := n.sysctl(key, fmt.Sprint(n.spec.Sysctls[key])); err != nil {
			return err
		}
	}
	if n.spec.Privileged == nil || !*n.spec.Privileged {
		derr := n.exec.do(func() { err = errors.Join(sealProc(), limitCaps(n.spec.CapAdd)) })
		if err = errors.Join(derr, err); err != nil {
			return err
		}
	}
	return n.setUp("lo", true)
}

// close ends all that runs in the node and drops its namespaces.
func (n *Node) close() error {
	var err error
	if n.hold != nil {
		err = n.hold.kill()
	}
	if n.nl != nil {
		n.nl.Close()
	}
	if n.nsfd >= 0 {
		err = errors.Join(err, unix.Close(n.nsfd))
	}
	if n.net != nil {
		n.net.stop()
	}
	if n.exec != nil {
		n.exec.stop()
	}
	return err
}

// Pid returns the host's process id of the process that holds the node, for
// nsenter.
func (n *Node) Pid() int { return n.hold.pid() }

// Sysctl sets a kernel parameter of the node's network namespace, "net.…".
func (n *Node) Sysctl(key, value string) {
	n.lab.tb.Helper()
	if err := n.sysctl(key, value); err != nil {
		n.lab.tb.Fatalf("%s: %v", n.Name, err)
	}
}

func (n *Node) sysctl(key, value string) error {
	if !strings.HasPrefix(key, "net.") {
		return fmt.Errorf("sysctl %s: only net.* belongs to a node, the rest is the host's", key)
	}
	var err error
	derr := n.net.do(func() {
		err = os.WriteFile("/proc/sys/"+strings.ReplaceAll(key, ".", "/"), []byte(value), 0)
	})
	if err = errors.Join(derr, err); err != nil {
		return fmt.Errorf("sysctl %s=%s: %w", key, value, err)
	}
	return nil
}

// Go runs f on an OS thread that is in the node's network namespace, and waits
// for it. Sockets that f makes itself belong to the node wherever they are used
// later; those of goroutines that f starts do not. The files are the host's.
func (n *Node) Go(f func()) {
	n.lab.tb.Helper()
	errc := make(chan error)
	onOwnThread(func() {
		defer close(errc)
		if err := n.hold.enter(unix.CLONE_NEWNET); err != nil {
			errc <- err
			return
		}
		f()
	})
	if err := <-errc; err != nil {
		n.lab.tb.Fatalf("%s: %v", n.Name, err)
	}
}

// WriteFile writes a file in the node.
func (n *Node) WriteFile(path, content string) {
	n.lab.tb.Helper()
	var err error
	derr := n.exec.do(func() {
		if err = makeMountPoint(path, false); err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
	})
	if err = errors.Join(derr, err); err != nil {
		n.lab.tb.Fatalf("%s: writing %s: %v", n.Name, path, err)
	}
}

// ReadFile returns a file of the node.
func (n *Node) ReadFile(path string) (string, error) {
	var data []byte
	var err error
	derr := n.exec.do(func() { data, err = os.ReadFile(path) })
	if err = errors.Join(derr, err); err != nil {
		return "", fmt.Errorf("%s: %w", n.Name, err)
	}
	return string(data), nil
}

// Listen listens on TCP in the node. addr is a literal address and port.
func (n *Node) Listen(addr string) (net.Listener, error) {
	var lis net.Listener
	var err error
	derr := n.net.do(func() {
		lc := net.ListenConfig{}
		lc.SetMultipathTCP(false) // a plain socket, like that of the programs it stands for
		lis, err = lc.Listen(n.lab.ctx, "tcp", addr)
	})
	if err = errors.Join(derr, err); err != nil {
		return nil, fmt.Errorf("%s: listening on %s: %w", n.Name, addr, err)
	}
	return lis, nil
}
