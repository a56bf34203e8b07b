// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// lastAfter is the number of times that a host's kubelet must reject pods of a replica before the host becomes a last resort for the
// replica. A single rejection may be transient.
const lastAfter = 2

// LastHosts returns the hosts that a failed replica uses only as a last resort, the worst first.
func LastHosts(f trellisv1alpha1.FailedReplica) []string {
	var hosts []string
	for _, host := range f.Hosts {
		if host.Rejections >= lastAfter {
			hosts = append(hosts, host.Name)
		}
	}
	return hosts
}

// lastHostsOf returns the hosts that replicas of a group use only as a last resort, by ordinal.
func lastHostsOf(sg *trellisv1alpha1.ScalingGroup) map[int32][]string {
	out := map[int32][]string{}
	for _, f := range sg.Status.FailedReplicas {
		if hosts := LastHosts(f); len(hosts) > 0 {
			out[f.Replica] = hosts
		}
	}
	return out
}
