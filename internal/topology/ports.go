// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"strconv"
	"strings"
)

// hostPort is a host port that a pod uses.
type hostPort struct {
	protocol, ip string
	port         int32
}

const (
	// anyAddress is the host IP of a port that is in use on all addresses of the host.
	anyAddress = "0.0.0.0"
	// eachAddress is a key that is used only in a portSet: it counts the uses of a port on any address.
	eachAddress = ""
)

// name returns the port as kubectl prints ports: "8080/TCP".
func (p hostPort) name() string { return strconv.Itoa(int(p.port)) + "/" + p.protocol }

func (p hostPort) text() string {
	return p.protocol + "/" + p.ip + "/" + strconv.Itoa(int(p.port))
}

func compareHostPorts(a, b hostPort) int {
	return cmp.Or(strings.Compare(a.protocol, b.protocol), strings.Compare(a.ip, b.ip), cmp.Compare(a.port, b.port))
}

// portSet counts the pods that use each port of a host. It also counts each use under eachAddress, so that at most two lookups find a
// conflict.
type portSet map[hostPort]int

// conflicts reports whether a port is in use, as in the kube-scheduler: two uses conflict on the same port, protocol and address, and
// 0.0.0.0 stands for every address.
func (s portSet) conflicts(p hostPort) bool {
	if p.ip == anyAddress {
		return s[hostPort{p.protocol, eachAddress, p.port}] > 0
	}
	return s[p] > 0 || s[hostPort{p.protocol, anyAddress, p.port}] > 0
}

// add counts k more pods that use a port; a negative k removes pods.
func (s portSet) add(p hostPort, k int) {
	for _, key := range [...]hostPort{p, {p.protocol, eachAddress, p.port}} {
		if s[key] += k; s[key] <= 0 {
			delete(s, key)
		}
	}
}
