// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// A deployment that is packed by a level whose domains are not single places is told so; so is one that waits for labels.
func TestTopologyProblems(t *testing.T) {
	levels := func(w *World, domains ...string) {
		w.Topologies[0].Spec.Levels = nil
		for _, domain := range domains {
			key := map[string]string{"zone": "zone", "rack": "rack", "host": "kubernetes.io/hostname"}[strings.TrimSuffix(domain, "!")]
			if strings.HasSuffix(domain, "!") {
				key = "example.com/rakc"
			}
			w.Topologies[0].Spec.Levels = append(w.Topologies[0].Spec.Levels, grovev1alpha1.TopologyLevel{Domain: strings.TrimSuffix(domain, "!"), Key: key})
		}
	}
	for name, tc := range map[string]struct {
		prepare func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment)
		never   []string
		levels  []string
	}{
		"nothing is wrong": {func(*World, *nvidiav1beta1.DynamoGraphDeployment) {}, nil, nil},
		"a key that no node has": {func(w *World, _ *nvidiav1beta1.DynamoGraphDeployment) { levels(w, "zone", "rack!") },
			[]string{"Worker will wait: no node has label example.com/rakc of level 'rack': correct the key of the level, or label the nodes"}, nil},
		"labels missing on a part of the nodes": {func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			for _, n := range w.Nodes[2:] {
				delete(n.Labels, "rack")
			}
			dgd.Component("Worker").Multinode.NodeCount = 4
		}, []string{"Worker will wait: no rack has 4 hosts: the largest has 2 (a/r0), and 6 of 8 hosts lack label rack of level 'rack': label them"}, nil},
		"a level left out": {func(w *World, _ *nvidiav1beta1.DynamoGraphDeployment) {
			for i, n := range w.Nodes {
				n.Labels["rack"], n.Labels["example.com/block"] = "r0", fmt.Sprint(i%2)
			}
		}, nil, []string{"ClusterTopology hall: rack a/r0 covers 2 places: its nodes have 2 values of label example.com/block (0, 1), as in 2 of 2 domains; make that label a level above 'rack'"}},
		"and the deployment is not packed by it": {func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			for i, n := range w.Nodes {
				n.Labels["rack"], n.Labels["example.com/block"] = "r0", fmt.Sprint(i%2)
			}
			dgd.Component("Worker").TopologyConstraint = nil
		}, nil, nil},
		"levels upside down": {func(w *World, _ *nvidiav1beta1.DynamoGraphDeployment) {
			for _, n := range w.Nodes {
				n.Labels["kubernetes.io/hostname"] = n.Name
				n.Labels["rack"] = n.Labels["zone"] + n.Labels["rack"]
			}
			levels(w, "host", "zone", "rack")
		}, []string{"Worker will wait: level 'zone' is below level 'host', so that a zone is one host: list the levels from the broadest to the narrowest"},
			[]string{"ClusterTopology hall: level 'host' (kubernetes.io/hostname) is above level 'zone' (zone), which is broader: list the levels from the broadest to the narrowest"}},
		"two levels above the host upside down": {func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			for _, n := range w.Nodes {
				n.Labels["rack"] = n.Labels["zone"] + n.Labels["rack"]
			}
			levels(w, "rack", "zone")
			dgd.Component("Worker").TopologyConstraint.PackDomain = "zone"
			dgd.Component("Worker").Multinode.NodeCount = 4
		}, []string{"Worker will wait: level 'zone' is below level 'rack', so that a zone is one rack: list the levels from the broadest to the narrowest"},
			[]string{"ClusterTopology hall: level 'rack' (rack) is above level 'zone' (zone), which is broader: list the levels from the broadest to the narrowest"}},
		"a level left out, by which only prefill and decode are paired": {func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			for i, n := range w.Nodes {
				n.Labels["rack"], n.Labels["example.com/block"] = "r0", fmt.Sprint(i%2)
			}
			worker := dgd.Component("Worker")
			worker.TopologyConstraint, worker.Type = nil, nvidiav1beta1.ComponentTypeDecode
			dgd.Spec.Experimental = &nvidiav1beta1.GraphExperimental{
				KVTransferPolicy: &nvidiav1beta1.KVTransferPolicy{ClusterTopologyName: "hall", Domain: "rack"},
			}
		}, nil, []string{"ClusterTopology hall: rack a/r0 covers 2 places: its nodes have 2 values of label example.com/block (0, 1), as in 2 of 2 domains; make that label a level above 'rack'"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, dgd := newWorld(2), deployment("g", 1)
			tc.prepare(&w, dgd)
			p := NewPlanner(World{Nodes: w.Nodes, Topologies: w.Topologies})
			for range 2 {
				if diff := cmp.Diff(tc.never, p.NeverFits(dgd)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if diff := cmp.Diff(tc.levels, p.MisplacedBy(dgd)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}
