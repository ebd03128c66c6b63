// Package kernel is rhid's side of the Linux kernel, over rtnetlink. It gives
// the reconciler two targets: "address" makes VIPs local on the host, "kernel"
// keeps the announcement routes that FRR or BIRD take into OSPF or BGP.
//
// What is rhid's is told by marks that the kernel keeps, so that a new process
// knows the leftovers of an old one: routes carry rhid's protocol number,
// IPv4 addresses its label, and both kinds of address the protocol number too
// (IFA_PROTO, Linux 5.18). Before 5.18 an IPv6 address is taken for rhid's when
// it is a configured VIP, stands on lo and has the flags rhid gives it.
//
// What is not rhid's is never changed. Additions are exclusive; deletions name
// the mark, and the kernel refuses them when it does not fit. The one
// replacement is of rhid's own route by another form of the same metric, right
// after it was read: deleting first would withdraw the VIP for a moment, and
// OSPF needs seconds to get over that.
//
// The kernel's table is a witness, too: where a routing daemon beside rhid speaks
// OSPF, it shows how the network leads to other hosts that announce a VIP
// (World.Sightings). What routing daemons put in is only read.
//
// The kernel takes IPv4 routes out without a word when lo goes down or loses
// its last address, and drops events when the socket's buffer is full. So World
// watches links and addresses too, asks for a full comparison after every loss,
// and the reconciler compares once a second whatever was heard.
package kernel
