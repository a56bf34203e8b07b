// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// lastAfter is the number of times that the kubelet of a host rejects pods of a replica before the host comes last for the replica: a
// single rejection may be transient.
const lastAfter = 2

// LastHosts returns the hosts that come last for a failed replica, the worst first.
func LastHosts(f trellisv1alpha1.FailedReplica) []string {
	var hosts []string
	for _, host := range f.Hosts {
		if host.Rejections >= lastAfter {
			hosts = append(hosts, host.Name)
		}
	}
	return hosts
}

// lastHostsOf returns the hosts that come last for the replicas of a group, by ordinal.
func lastHostsOf(sg *trellisv1alpha1.ScalingGroup) map[int32][]string {
	out := map[int32][]string{}
	for _, f := range sg.Status.FailedReplicas {
		if hosts := LastHosts(f); len(hosts) > 0 {
			out[f.Replica] = hosts
		}
	}
	return out
}
