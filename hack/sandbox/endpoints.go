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

// Endpoints stand in for a Service and for kube-proxy: each new connection goes to one of the ready addresses in turn, and ends at once
// while there is none. As with kube-proxy no second address is tried when the first one does not answer, and an open connection stays with
// its address.
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

// Port that callers connect to.
func (e *Endpoints) Port() int32 {
	return int32(e.listener.Addr().(*net.TCPAddr).Port) //nolint:gosec,forcetypeassert // a port of a TCP listener
}

// Close ends listening. Open connections stay.
func (e *Endpoints) Close() { _ = e.listener.Close() }

// Add makes an address, host:port, one of the ready ones.
func (e *Endpoints) Add(address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.ready, address) {
		e.ready = append(e.ready, address)
	}
}

// Remove takes an address away from the ready ones, and reports whether it was one.
func (e *Endpoints) Remove(address string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.ready)
	e.ready = slices.DeleteFunc(e.ready, func(other string) bool { return other == address })
	return len(e.ready) < before
}

// Ready are the addresses that connections are led to.
func (e *Endpoints) Ready() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ready)
}

// next address to lead a connection to.
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

// lead passes bytes on in both directions until both sides have ended. A caller that cannot be led finds its connection closed.
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
