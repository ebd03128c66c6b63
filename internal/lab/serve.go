package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Server is a test server in a node.
type Server struct {
	node   *Node
	addr   string
	handle func(net.Conn) // serves one connection, which the caller closes
	status atomic.Int32   // of HTTP answers
	mute   atomic.Bool
	reset  atomic.Bool

	mu    sync.Mutex
	lis   net.Listener
	conns map[net.Conn]bool
}

// Serve starts a TCP server in the node: it sends the node's name and a newline
// and then echoes what it gets. addr is a literal address and port, or ":9100"
// for all addresses of both families. Where a topology has a server of its own
// on the port, end that first (KillAll).
func (n *Node) Serve(addr string) *Server {
	n.lab.tb.Helper()
	s := &Server{node: n, addr: addr, conns: map[net.Conn]bool{}}
	s.handle = s.echo
	s.Resume()
	context.AfterFunc(n.lab.ctx, s.close)
	return s
}

// ServeHTTP starts an HTTP server in the node that answers every request with
// the node's name.
func (n *Node) ServeHTTP(addr string) *Server {
	n.lab.tb.Helper()
	s := &Server{node: n, addr: addr, conns: map[net.Conn]bool{}}
	s.status.Store(http.StatusOK)
	s.handle = s.http
	s.Resume()
	context.AfterFunc(n.lab.ctx, s.close)
	return s
}

// SetStatus sets the status of HTTP answers from now on.
func (s *Server) SetStatus(code int) { s.status.Store(int32(code)) }

// Mute makes the server accept connections and say nothing on them, or ends it.
// What is connected already goes on.
func (s *Server) Mute(on bool) { s.mute.Store(on) }

// Reset makes the server accept connections and reset them at once, or ends it.
func (s *Server) Reset(on bool) { s.reset.Store(on) }

// Stop stops listening, so that the kernel refuses connections, and resets
// those that are open. To have it drop packets instead use Node.DropTCP.
func (s *Server) Stop() { s.close() }

// Pause stops listening and leaves open connections alone.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeListener()
}

func (s *Server) closeListener() {
	if s.lis == nil {
		return
	}
	if err := s.lis.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.node.lab.logf("%s: closing %s: %v", s.node.Name, s.addr, err)
	}
	s.lis = nil
}

// Resume listens again.
func (s *Server) Resume() {
	s.node.lab.tb.Helper()
	lis, err := s.node.Listen(s.addr)
	if err != nil {
		s.node.lab.tb.Fatalf("%v", err)
	}
	s.mu.Lock()
	s.lis = lis
	s.mu.Unlock()
	go s.accept(lis)
}

func (s *Server) accept(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // a connection that was gone before it was accepted
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		go s.serve(conn)
	}
}

func (s *Server) serve(conn net.Conn) {
	switch {
	case s.reset.Load():
		abort(conn)
	case s.mute.Load():
		drain(conn)
	default:
		s.handle(conn)
	}
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	finish(conn)
}

// close stops listening and resets what is connected.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeListener()
	for conn := range s.conns {
		abort(conn)
	}
}

// abort closes a connection with a reset.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.SetLinger(0) != nil {
		return // closed already
	}
	finish(conn)
}

// finish closes a connection that may be closed; nobody is told how that went.
func finish(conn net.Conn) { _ = conn.Close() }

// drain reads until the other side ends.
func drain(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func (s *Server) echo(conn net.Conn) {
	if _, err := fmt.Fprintf(conn, "%s\n", s.node.Name); err != nil {
		return // the client did not wait
	}
	_, _ = io.Copy(conn, conn) // ends when either side does
}

// http answers requests on one connection.
func (s *Server) http(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return // the client has ended it
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		name := s.node.Name + "\n"
		last := req.Close || !req.ProtoAtLeast(1, 1)
		resp := http.Response{
			StatusCode: int(s.status.Load()), ProtoMajor: 1, ProtoMinor: 1, Request: req, Close: last,
			Header: http.Header{"Content-Type": {"text/plain"}}, ContentLength: int64(len(name)),
			Body: io.NopCloser(strings.NewReader(name)),
		}
		if err := resp.Write(conn); err != nil || last {
			return
		}
	}
}
