// Package services decides which node announces which service, and says why.
// Start reading at decide.go; rules_test.go has the rules as a table.
//
// # What is promised
//
// Decide is a pure function of its Inputs: no clock, no network, no memory. The
// same inputs give the same candidates in the same order on every node, so
// that nodes which know the same agree without asking each other. Each
// candidate has one typed reason for its place, and status, explain and plan
// print just that. Tracker has the memory that a decision needs, of one service
// on one node; it is given the time.
//
// # The rules
//
// For each service, highest priority first, then by name:
//
//  1. The candidates are the nodes of its order. Without one, AutoOrder makes
//     it: the main node, its site, the others, each by rendezvous hashing.
//  2. A candidate is weighed (candidates.go): what it says of itself, unless it
//     is not there. Two witnesses tell of a death: gossip, and the routers. A
//     node that gossip lost while routers still have its route is taken as it
//     was, for witness_hold; one whose route every router lost while it should
//     announce is down, whatever gossip says. Where nobody can see whether such
//     a route is back, who took over stays behind it, at the worst rank.
//  3. A node that an operator drains is a last resort (Standby); a service
//     drained everywhere is Down everywhere.
//  4. Candidates are sorted (decide.go, compare): pinned and usable first; Ready
//     before Standby, and who is Down or Unknown is out; a holder before
//     others where failback is never or the cluster is frozen; who has room
//     before who is full, which never counts against a main node; and then the
//     order.
//  5. The first k announce, and their place is their rank. With scope site this
//     holds for each site by itself.
//
// What the deciding node then does (verdict.go):
//
//   - Chosen: Announce. But a node takes nothing over while it is still
//     settling, nor in a minority with partition quorum, nor on a cold start
//     before a better placed node that started with it has come to an answer.
//   - Not chosen and announcing: Hold, at the worst rank, until every chosen
//     node is exported, or handover_timeout is over; when drained, for
//     drain_time too. A node whose own service is down does not wait; but
//     with all_down keep or max_withdrawals it does, because what fails here
//     may fail there a moment later, and nobody would be left to go on.
//   - Nobody can serve: Withdraw; or, with all_down keep, exactly one holder of
//     each scope goes on, marked degraded; or, once max_withdrawals services
//     have left within a minute because of what fails everywhere, this one
//     holds on. What fails on this node alone is never held back.
//   - A check may say what fails with it (State.Depends). A service that local
//     checks suffice to take down is never held back and never waits, even
//     where it fails everywhere at once. One that would be up but for shared
//     checks counts towards max_withdrawals even where others can still serve,
//     since they are about to find out; above it this node holds on, at the
//     worst rank, so that who can serve comes first.
//   - Unknown: Undecided, which changes nothing that is announced.
//
// # Readiness
//
// A node is Standby for a service when it has just started or failed, until it
// has been healthy for failback.delay (auto) or an operator says so (manual);
// when it went down too often (damping); and when no router has a session with
// it; when a link of the node with the effect standby is down; and, for what it
// does not announce, when the node is overloaded. A link with the effect down
// makes it Down instead. Standby is usable: where nobody is Ready, the first
// Standby of the order serves at once, so a cold start waits for nothing, and a
// damped node is never damped into silence. What serves is not on trial: a
// healthy node that announces is Ready from then on. A node is Standby, too,
// while a maintenance file says that the service is worked on there, and, where
// the configuration says so, while it is degraded; and Ready again at once when
// that is over.
package services
