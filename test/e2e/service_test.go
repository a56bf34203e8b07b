// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// service stands in for kube-proxy: it leads every new connection to one of its endpoints, and to nowhere while it has none. A connection
// that is open stays with its endpoint.
type service struct {
	net.Listener
	mu        sync.Mutex
	endpoints []string
	next      int
	open      map[string][]net.Conn
}

func newService(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Listener: listener, open: map[string][]net.Conn{}}
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		for {
			caller, err := s.Accept()
			if err != nil {
				return
			}
			go s.lead(caller)
		}
	}()
	return s
}

func (s *service) port() int32 { return int32(s.Addr().(*net.TCPAddr).Port) }

func (s *service) add(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, endpoint)
}

func (s *service) remove(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = slices.DeleteFunc(s.endpoints, func(e string) bool { return e == endpoint })
}

// cut removes an endpoint and ends the connections to it.
func (s *service) cut(endpoint string) {
	s.remove(endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open[endpoint] {
		_ = c.Close()
	}
	delete(s.open, endpoint)
}

func (s *service) dial() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endpoints) == 0 {
		return nil, errors.New("no endpoints")
	}
	s.next++
	endpoint := s.endpoints[s.next%len(s.endpoints)]
	c, err := net.Dial("tcp", endpoint)
	if err == nil {
		s.open[endpoint] = append(s.open[endpoint], c)
	}
	return c, err
}

func (s *service) lead(caller net.Conn) {
	defer caller.Close()
	endpoint, err := s.dial()
	if err != nil {
		return
	}
	defer endpoint.Close()
	go func() {
		_, _ = io.Copy(endpoint, caller)
		_ = endpoint.Close()
	}()
	_, _ = io.Copy(caller, endpoint)
}
