// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports finds ports for what tests and sandboxes start.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports come from below the range that kernels take outgoing connections' ports from, so that a restarted component finds its port free.
const (
	firstPort = 20000
	lastPort  = 29999
)

// Free finds a port on 127.0.0.1 that no one uses now and that is not in taken.
func Free(taken map[string]int) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // not a secret
		used := false
		for _, t := range taken {
			used = used || t == port
		}
		if !used && IsFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("found no free port on 127.0.0.1 between 20000 and 29999")
}

// IsFree looks at the loopback address and at the wildcard address: programs use either.
func IsFree(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
