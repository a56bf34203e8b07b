// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports finds ports for what tests start.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Below the range that kernels take the ports of outgoing connections from, and the one of sandboxes.
const (
	firstPort = 10000
	lastPort  = 19999
)

var errNoPort = fmt.Errorf("found no free port between %d and %d", firstPort, lastPort)

// Free returns a port on which nothing listens, on the loopback address or any other. What is started later finds it free: no outgoing
// connection gets it meanwhile.
func Free() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // not a secret
		if nothingListens("127.0.0.1", port) && nothingListens("", port) {
			return port, nil
		}
	}
	return 0, errNoPort
}

func nothingListens(host string, port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	return err == nil && listener.Close() == nil
}
