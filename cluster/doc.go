// Package cluster spreads what every load-balancer host says of itself, and
// what operators ask for, to all the others. It finds out who is there. It
// decides nothing.
//
// Start reading at Cluster in cluster.go. DESIGN.md says what the package
// promises and which traps are behind its rules.
package cluster
