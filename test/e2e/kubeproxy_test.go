// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// endpoints stand in for kube-proxy: each new connection is led to one of several addresses in turn, and ends at once while there are none. A
// connection that is open stays with its address.
type endpoints struct {
	net.Listener
	mu        sync.Mutex
	addresses []string
	next      int
}

func newEndpoints() *endpoints {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s := &endpoints{Listener: listener}
	DeferCleanup(func() { _ = s.Close() })
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

func (s *endpoints) port() int32 { return int32(s.Addr().(*net.TCPAddr).Port) }

func (s *endpoints) add(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = append(s.addresses, address)
}

func (s *endpoints) remove(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = slices.DeleteFunc(s.addresses, func(a string) bool { return a == address })
}

func (s *endpoints) dial() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.addresses) == 0 {
		return nil, errors.New("the Service has no ready endpoints")
	}
	s.next++
	return net.Dial("tcp", s.addresses[s.next%len(s.addresses)])
}

func (s *endpoints) lead(caller net.Conn) {
	defer func() { _ = caller.Close() }()
	endpoint, err := s.dial()
	if err != nil {
		return
	}
	defer func() { _ = endpoint.Close() }()
	go func() {
		_, _ = io.Copy(endpoint, caller)
		_ = endpoint.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(caller, endpoint)
}
