// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/hierarchy"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// scans caches the last scan of the nodes for each topology, because every new or deleted deployment triggers a status update of its
// topology, and there are many nodes. A scan is valid until a node is added, deleted or relabelled, or the topology's spec changes.
type scans struct {
	// nodes counts the node events that invalidate scans. The watch may increment it while a reconcile runs.
	nodes atomic.Uint64
	// known has the last scan by topology UID. Only the controller's single worker accesses it.
	known map[types.UID]scanned
}

type scanned struct {
	scan  scan
	nodes uint64
	spec  grovev1alpha1.ClusterTopologySpec
}

// scan is the result of comparing the nodes with a topology.
type scan struct {
	topology.Scan
	// omitted are levels in the nodes' labels that the topology lacks. Without such a level, one path of label values refers to several
	// domains.
	omitted []hierarchy.Omitted
	// reversed are levels in the wrong order.
	reversed []hierarchy.Reversed
}

// of scans the nodes for a topology, unless the last scan is still valid. A node event during a scan makes that scan stale.
func (s *scans) of(ctx context.Context, ct *grovev1alpha1.ClusterTopology, reader client.Reader) (scan, error) {
	now := scanned{nodes: s.nodes.Load(), spec: *ct.Spec.DeepCopy()}
	if last, known := s.known[ct.UID]; known && last.nodes == now.nodes && equality.Semantic.DeepEqual(last.spec, now.spec) {
		return last.scan, nil
	}
	nodes := &corev1.NodeList{}
	if err := reader.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil { // the nodes are not changed
		return scan{}, fmt.Errorf("listing nodes: %w", err)
	}
	now.scan = scanNodes(ct, nodes.Items)
	for uid, old := range s.known { // scans of topologies that are gone, or that will be scanned again
		if old.nodes != now.nodes {
			delete(s.known, uid)
		}
	}
	if s.known == nil {
		s.known = map[types.UID]scanned{}
	}
	s.known[ct.UID] = now
	return now.scan, nil
}

func scanNodes(ct *grovev1alpha1.ClusterTopology, nodes []corev1.Node) scan {
	pointers := make([]*corev1.Node, len(nodes))
	selector, covered := labels.SelectorFromSet(ct.Spec.NodeSelector), make([]map[string]string, 0, len(nodes))
	for i := range nodes {
		pointers[i] = &nodes[i]
		if selector.Matches(labels.Set(nodes[i].Labels)) {
			covered = append(covered, nodes[i].Labels)
		}
	}
	levels := make(topology.Levels, 0, len(ct.Spec.Levels))
	for _, level := range ct.Spec.Levels {
		levels = append(levels, topology.Level{Domain: level.Domain, Key: level.Key})
	}
	return scan{
		Scan:    topology.ScanNodes(pointers, levels, ct.Spec.NodeSelector),
		omitted: hierarchy.FindOmitted(covered, levels), reversed: hierarchy.FindReversed(covered, levels),
	}
}
