// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"strconv"
	"strings"
)

// hostPort is a port of a host that a pod takes.
type hostPort struct {
	protocol, ip string
	port         int32
}

const (
	// anyAddress is the host IP of a port that is taken on all addresses of the host.
	anyAddress = "0.0.0.0"
	// eachAddress stands for a port on whatever address, in a portSet only.
	eachAddress = ""
)

// name is how messages have the port, as kubectl writes ports: "8080/TCP".
func (p hostPort) name() string { return strconv.Itoa(int(p.port)) + "/" + p.protocol }

func (p hostPort) text() string {
	return p.protocol + "/" + p.ip + "/" + strconv.Itoa(int(p.port))
}

func compareHostPorts(a, b hostPort) int {
	return cmp.Or(strings.Compare(a.protocol, b.protocol), strings.Compare(a.ip, b.ip), cmp.Compare(a.port, b.port))
}

// portSet counts the pods that take each port of a host. Each port counts a second time for whatever address, so that a conflict is found
// by at most two lookups.
type portSet map[hostPort]int

// conflicts follows the kube-scheduler: the same port and protocol on the same address, and 0.0.0.0 is every address.
func (s portSet) conflicts(p hostPort) bool {
	if p.ip == anyAddress {
		return s[hostPort{p.protocol, eachAddress, p.port}] > 0
	}
	return s[p] > 0 || s[hostPort{p.protocol, anyAddress, p.port}] > 0
}

// add counts k more pods that take a port (fewer, when k is negative).
func (s portSet) add(p hostPort, k int) {
	for _, key := range [...]hostPort{p, {p.protocol, eachAddress, p.port}} {
		if s[key] += k; s[key] <= 0 {
			delete(s, key)
		}
	}
}
