// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// lookForNeighbours counts, for each replica, the pods of other replicas of any graph in the replica's domain. It counts them only when
// replicas have to be scaled in, because the removal of a replica without neighbours frees its domain.
func (p *pass) lookForNeighbours(ctx context.Context) error {
	there := 0
	for _, one := range p.replicas {
		if one.outdated {
			return nil
		}
		countIf(&there, one.there())
	}
	if p.sg.Spec.Topology == nil || p.sg.Spec.Replicas == 0 || there <= int(p.sg.Spec.Replicas) {
		return nil
	}
	levels := gang.LevelsOf(p.sg.Spec.Topology)
	nodeLabels := func(node string) map[string]string { return p.nodes().labels(ctx, node) }
	pods, of := map[string]int{}, map[*replica]string{}
	for _, one := range p.replicas {
		if path, bound := gang.SharedDomain(levels, one.active(), nodeLabels); bound && len(path) > 0 {
			of[one], pods[path.String()] = path.String(), 0
		}
	}
	if len(pods) < 2 {
		return nil
	}
	if err := p.nodes().countPods(ctx, levels, pods); err != nil {
		return err
	}
	for one, domain := range of {
		one.neighbours = max(0, pods[domain]-len(one.pods))
	}
	return nil
}

// countPods counts the pods of graphs in each of the domains.
func (n nodes) countPods(ctx context.Context, levels topology.Levels, domains map[string]int) error {
	list := &corev1.NodeList{}
	if err := n.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	for i := range list.Items {
		path := levels.PathOf(list.Items[i].Labels)
		pods := -1
		for ; len(path) > 0; path = path[:len(path)-1] {
			domain := path.String()
			if _, asked := domains[domain]; !asked {
				continue
			}
			if pods < 0 {
				var err error
				if pods, err = n.countOn(ctx, list.Items[i].Name); err != nil {
					return err
				}
			}
			domains[domain] += pods
		}
	}
	return nil
}

func (n nodes) countOn(ctx context.Context, node string) (int, error) {
	pods, count := &corev1.PodList{}, 0
	if err := n.client.List(ctx, pods, client.MatchingFields{scheduler.IndexPodsByNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		countIf(&count, pod.DeletionTimestamp == nil && !ended(pod))
	}
	return count, nil
}

func countIf(n *int, is bool) {
	if is {
		*n++
	}
}
