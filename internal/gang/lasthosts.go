// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// lastAfter is how often the kubelet of a host rejects pods of a replica before the host comes last for the replica: a single
// rejection may be transient.
const lastAfter = 2

// LastHosts are the hosts that come last for a failed replica, the worst first.
func LastHosts(f trellisv1alpha1.FailedReplica) []string {
	var hosts []string
	for _, host := range f.Hosts {
		if host.Rejections >= lastAfter {
			hosts = append(hosts, host.Name)
		}
	}
	return hosts
}

// lastHostsOf are the hosts that come last for the replicas of a group, by ordinal.
func lastHostsOf(sg *trellisv1alpha1.ScalingGroup) map[int32][]string {
	out := map[int32][]string{}
	for _, f := range sg.Status.FailedReplicas {
		if hosts := LastHosts(f); len(hosts) > 0 {
			out[f.Replica] = hosts
		}
	}
	return out
}

// avoid has a replica keep off the hosts that come last for it, and off those that others have not left in time. Where a host has rejected
// its pods the replica does not return to its former domain first, either.
func (r *Request) avoid(g *groupView, component string, ordinal int) (hosts []string) {
	last := g.last[int32(ordinal)]
	if len(last) > 0 {
		key := Key{Component: component, Ordinal: ordinal}
		r.left[key] = left{from: g.hints[int32(ordinal)], host: last[0], why: fmt.Sprintf("node %s has rejected its pods and comes last for it",
			last[0])}
	}
	hosts = slices.Clone(last)
	for _, host := range r.o.Avoid[replicaName(g.sg, ordinal)] {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
