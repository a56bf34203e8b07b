// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// release is one pod on its way to its place.
type release struct {
	dgd *nvidiav1beta1.DynamoGraphDeployment
	pod *corev1.Pod
	pin engine.Pin
	// base: of the gang that a graph in one domain begins with.
	base bool
}

// releasesOf sends one replica's pods to their planned nodes, by path labels, and by host where the labels alone would not do (docs/engines.md#gates).
func (s *Scheduler) releasesOf(dgd *nvidiav1beta1.DynamoGraphDeployment, v *view, replica placement.ReplicaResult, base string) []release {
	gang := v.gangs[replicaKey{replica.Service, replica.Ordinal}]
	if gang == "" && replica.Base {
		gang = base
	}
	if gang == "" {
		gang = gangName(dgd.Name, placement.Result{Replicas: []placement.ReplicaResult{replica}}, func(placement.ReplicaResult) bool { return true })
	}
	domain := s.narrowest(v.graph.Levels, replica)
	labels, nodes := v.labelsOf(domain), []string(nil)
	if !replica.PinHosts {
		nodes = s.nodesToName(v, domain, replica)
	}
	out := make([]release, 0, len(replica.Pods))
	for _, planned := range replica.Pods {
		pin := engine.Pin{Graph: dgd.Name, Gang: gang, Labels: labels, Nodes: nodes}
		if replica.Preempts != nil {
			pin.Preempts, pin.Wide = true, v.labelsOf(v.widest(replica))
		}
		if replica.PinHosts {
			pin.Node = planned.Node
		}
		s.releasing[planned.ID], s.released[planned.ID] = domain, s.options.Clock.Now()
		if replica.Preempts != nil {
			s.preempting[planned.ID] = true
		}
		out = append(out, release{dgd: dgd, pod: v.gated[planned.ID], pin: pin, base: replica.Base && gang == base})
	}
	return out
}

// widest is the domain that a preempting replica has to be pinned to whatever its scheduler knows of domains: the graph's, which other
// replicas are in, and that of a single-node service, all of whose replicas share it. Its pods' pins are where these are read from.
func (v *view) widest(replica placement.ReplicaResult) topology.Path {
	for i := range v.graph.Services {
		if s := &v.graph.Services[i]; s.Name == replica.Service && s.Multinode {
			return replica.Domain.Truncate(v.graph.Required)
		}
	}
	return replica.Domain
}

// narrowest is the narrowest domain that holds all planned nodes of a replica. Pinned to its required domain alone, a replica planned
// into one rack of its zone would be spread over the zone by a scheduler that prefers empty hosts, and break up racks that the plan kept
// whole. The host is left to the scheduler.
func (s *Scheduler) narrowest(levels topology.Levels, replica placement.ReplicaResult) topology.Path {
	var common topology.Path
	for i, pod := range replica.Pods {
		path := levels.PathOf(s.cluster.NodeLabels(pod.Node))
		if i == 0 {
			common = path
		}
		n := 0
		for n < min(len(common), len(path)) && common[n] == path[n] {
			n++
		}
		common = common[:n]
	}
	if host := levels.IndexOfKey(corev1.LabelHostname); host != topology.NoLevel {
		common = common.Truncate(host - 1)
	}
	if len(common) < len(replica.Domain) {
		return replica.Domain
	}
	return common
}

// dropPlan gives the capacity back of a replica whose pods are not all made yet. It is placed once they exist.
func (s *Scheduler) dropPlan(replica placement.ReplicaResult) {
	for _, pod := range replica.Pods {
		s.cluster.Forget(pod.ID)
	}
}

// gangName is the same for the same pods and differs for their successors.
func gangName(dgd string, result placement.Result, member func(placement.ReplicaResult) bool) string {
	hash := sha256.New()
	for _, replica := range result.Replicas {
		if replica.Refusal == nil && member(replica) {
			for _, pod := range replica.Pods {
				hash.Write([]byte(pod.ID + "\n"))
			}
		}
	}
	return dgd + "-" + hex.EncodeToString(hash.Sum(nil)[:5])
}

// send carries one release out. When it fails the pod's capacity is given back and the graph looked at again: what was released of the
// gang by then anchors the rest.
func (s *Scheduler) send(ctx context.Context, placer engine.Placer, r release) {
	err := placer.Release(ctx, r.pod, r.pin)
	if err == nil {
		return // the pod's own event ends the release
	}
	if !errors.Is(err, engine.ErrPodGone) && ctx.Err() == nil {
		logger(ctx, r.dgd).Error(err, "releasing a pod", "pod", r.pod.Name, "gang", r.pin.Gang)
	}
	s.giveBack(r.pod)
	s.lookAgain(r.dgd)
}

// labelsOf are the labels that only nodes of the domain carry: the whole path, and those of the node pool that the topology describes.
func (v *view) labelsOf(domain topology.Path) map[string]string {
	labels := v.graph.Levels.Selector(domain)
	if len(v.graph.NodeSelector) == 0 {
		return labels
	}
	out := maps.Clone(v.graph.NodeSelector)
	maps.Copy(out, labels)
	return out
}
