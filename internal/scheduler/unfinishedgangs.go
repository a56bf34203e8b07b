// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// unfinished explains that not all of a base gang of a graph, or of the first replica of a component, is created, or that a pod is still to
// be deleted of one that could not be completed; "" for neither. What is released meanwhile would be in a domain in which the rest may
// never be.
func (b *Creations) unfinished(graph types.NamespacedName, pods []*corev1.Pod) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.byName {
		if one.graph == graph && one.base && one.state >= creationPlaced && one.state < creationMade {
			return gang.BeingCreated
		}
	}
	for _, pod := range pods {
		group, uid, owned := render.GroupOf(pod)
		of := b.groups[types.NamespacedName{Namespace: pod.Namespace, Name: group}]
		if owned && of != nil && of.uid == uid && pod.DeletionTimestamp == nil && of.failed[pod.Annotations[render.AnnotationGang]] {
			return gang.AfterDeletion
		}
	}
	return ""
}

// uncreatable returns the recorded gangs with pods that could not be created.
func (b *Creations) uncreatable(graph types.NamespacedName, r *assignment.Record) map[string]bool {
	if b == nil || r == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]bool{}
	for _, of := range b.groups {
		for name := range of.failed {
			if _, recorded := r.Gangs[name]; recorded && of.graph == graph {
				out[name] = true
			}
		}
	}
	return out
}
