// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/peer"
)

// Trim implements provider.Trimmer. A replica that was lost stands in the PodGroup until then, and KAI reports the whole of it as stale in
// every cycle. Replicas with pods on their way out stay listed until those are gone.
func (p Placer) Trim(ctx context.Context, own client.Reader, gang provider.Gang, pods []*corev1.Pod) error {
	if own == nil {
		return nil
	}
	object, listed := &unstructured.Unstructured{}, &kai.PodGroup{}
	object.SetGroupVersionKind(kai.PodGroupKind)
	if own.Get(ctx, client.ObjectKeyFromObject(gang.Graph), object) != nil || peer.Read(object, listed) != nil {
		return nil //nolint:nilerr // gone, or not to be read: the next gang forms it
	}
	there := map[string]bool{}
	for _, pod := range pods {
		if !graph.GateClosed(pod) || p.isForming(gang, pod) {
			labels, _ := kai.Membership(gang.Graph.Name, pod)
			there[labels[kai.LabelSubGroup]] = true
		}
	}
	var lost, kept bool
	for _, sub := range listed.Spec.SubGroups {
		if sub.MinMember != nil {
			lost, kept = lost || !there[sub.Name], kept || there[sub.Name]
		}
	}
	if !lost || !kept {
		return nil // with none left there is nothing to call stale, and the next gang forms it
	}
	gang.Replicas = nil
	return p.Form(ctx, gang)
}

func (p Placer) isForming(gang provider.Gang, pod *corev1.Pod) bool {
	p.forming.mu.Lock()
	defer p.forming.mu.Unlock()
	return p.forming.pods[gang.Graph.UID][pod.UID]
}
