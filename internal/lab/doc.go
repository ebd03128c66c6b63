// Package lab is the test bench: it reads a containerlab topology file, builds
// it out of network namespaces and veth pairs, starts the routing daemons the
// file names, and gives tests the words to cut, freeze, kill and measure with.
//
// It needs root, Linux 5.8 or later, overlayfs, and what the file's commands
// call (FRR, BIRD, HAProxy, nftables, tcpdump). It never touches the host:
//
//   - Each node has network, mount, pid, uts and ipc namespaces of its own, held
//     by one process, which is pid 1 in them. They have no names, so there is
//     nothing to delete.
//   - The node's root is an overlay of the host's root with its upper layer in
//     memory; /run, /tmp, /var/log and /dev are empty file systems of its own.
//   - The process that holds a node dies with the process that built it, however
//     that ends. The kernel then kills whatever runs in the node and drops its
//     mounts, namespaces and links.
//
// Start builds a topology for a test and takes it down when the test ends, and
// prints what the daemons said when it failed. Up does the same outside tests.
// The commands of a node run with the capabilities that a container of the file
// would have, and /proc/sys is read-only in it, so that a file which works here
// works under containerlab too.
//
// Where a method takes a command, its first word is looked up in the node.
// Times are monotonic (time.Time with a monotonic reading) and of one clock for
// all nodes, so events of different nodes can be compared.
package lab
