// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports finds free ports for programs of tests and sandboxes.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are below the ephemeral port range of kernels, so that a restarted program finds its port free.
const (
	firstPort = 20000
	lastPort  = 29999
)

// Free finds a port on 127.0.0.1 that is not in use and not in taken.
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

// IsFree checks the loopback address and the wildcard address, because programs use either.
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
