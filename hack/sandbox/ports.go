// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// Ports come from below the range that kernels take outgoing connections' ports from, so that a restarted component finds its port free.
const (
	firstPort = 20000
	lastPort  = 29999

	// portTries bounds how often a component may lose its port to another client between the look and its start.
	portTries = 10
)

// freePort finds a port on 127.0.0.1 that no one uses now and that is not in taken.
func freePort(taken map[string]int) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // not a secret
		used := false
		for _, t := range taken {
			used = used || t == port
		}
		if !used && portIsFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("found no free port on 127.0.0.1 between 20000 and 29999")
}

// portIsFree looks at the loopback address and at the wildcard address: programs use either.
func portIsFree(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// lostPort reports whether a program ended because another client had its port.
func lostPort(logFile string) bool {
	tail := proc.Tail(logFile, 20)
	return slices.ContainsFunc([]string{"address already in use", "bind: permission denied"}, func(text string) bool {
		return strings.Contains(tail, text)
	})
}

// takePort gives a component a port that no one uses.
func (s *Sandbox) takePort(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	port, err := freePort(s.state.Ports)
	if err == nil {
		s.state.Ports[name] = port
	}
	return err
}

func (s *Sandbox) port(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Ports[name]
}
