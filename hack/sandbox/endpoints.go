// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
)

// Endpoints stands in for a Service and kube-proxy: it forwards each new connection to one of the ready addresses in turn, and
// closes it when there is none. As with kube-proxy, it does not try a second address when the first does not respond, and an open
// connection stays with its address.
type Endpoints struct {
	listener net.Listener

	mu    sync.Mutex
	ready []string
	turn  int
}

// NewEndpoints listens on a free port of this machine until Close.
func NewEndpoints(ready ...string) (*Endpoints, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &Endpoints{listener: listener, ready: slices.Clone(ready)}
	go e.accept()
	return e, nil
}

// Port is the port to connect to.
func (e *Endpoints) Port() int32 {
	return int32(e.listener.Addr().(*net.TCPAddr).Port) //nolint:gosec,forcetypeassert // a port of a TCP listener
}

// Close stops listening. Open connections stay open.
func (e *Endpoints) Close() { _ = e.listener.Close() }

// Add adds an address (host:port) to the ready addresses.
func (e *Endpoints) Add(address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.ready, address) {
		e.ready = append(e.ready, address)
	}
}

// Remove removes an address from the ready addresses and reports whether it was one of them.
func (e *Endpoints) Remove(address string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.ready)
	e.ready = slices.DeleteFunc(e.ready, func(other string) bool { return other == address })
	return len(e.ready) < before
}

// Ready are the ready addresses.
func (e *Endpoints) Ready() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ready)
}

// next is the address for the next connection.
func (e *Endpoints) next() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ready) == 0 {
		return "", errors.New("the Service has no ready endpoints")
	}
	e.turn++
	return e.ready[e.turn%len(e.ready)], nil
}

func (e *Endpoints) accept() {
	for {
		caller, err := e.listener.Accept()
		if err != nil {
			return
		}
		go e.lead(caller)
	}
}

// lead copies data in both directions until both sides are closed. Without a ready address it closes the connection of the caller.
func (e *Endpoints) lead(caller net.Conn) {
	defer caller.Close()
	address, err := e.next()
	if err != nil {
		return
	}
	endpoint, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer endpoint.Close()
	go func() {
		_, _ = io.Copy(endpoint, caller)
		_ = endpoint.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // a TCP connection
	}()
	_, _ = io.Copy(caller, endpoint)
}
