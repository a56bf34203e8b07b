// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
)

// portTries is how often a component can lose its port to another program between the search for a free port and its start.
const portTries = 10

// lostPort reports whether a program ended because another program uses its port.
func lostPort(logFile string) bool {
	tail := proc.Tail(logFile, 20)
	return slices.ContainsFunc([]string{"address already in use", "bind: permission denied"}, func(text string) bool {
		return strings.Contains(tail, text)
	})
}

// takePort assigns a free port to a component.
func (s *Sandbox) takePort(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	port, err := ports.Free(s.state.Ports)
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
