// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/external/write"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Trim implements provider.Trimmer. If a PodGroup kept a lost replica, KAI would report the whole PodGroup as stale in every cycle. A
// replica with terminating pods stays in the PodGroup until these pods are gone.
func (p Placer) Trim(ctx context.Context, own client.Reader, of gang.Members, pods []*corev1.Pod) error {
	if own == nil {
		return nil
	}
	object, listed := &unstructured.Unstructured{}, &kai.PodGroup{}
	object.SetGroupVersionKind(kai.PodGroupKind)
	if own.Get(ctx, client.ObjectKeyFromObject(of.Graph), object) != nil || external.Read(object, listed) != nil {
		return nil //nolint:nilerr // gone, or not to be read: the next gang forms it
	}
	there := map[string]bool{}
	for _, pod := range pods {
		if !render.GateClosed(pod) || p.isForming(of, pod) {
			labels, _ := kai.Membership(of.Graph.Name, pod)
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
		return nil // a PodGroup without pods is not stale, and the next gang forms it
	}
	of.Replicas = nil
	return p.Form(ctx, of)
}

// Adopt implements provider.Adopter.
func (p Placer) Adopt(ctx context.Context, by adoption.Adopter) error {
	have, err := p.Get(ctx, kai.PodGroupKind, by.Owner.GetNamespace(), by.Owner.GetName())
	if err != nil || have == nil || !write.Orphaned(have) {
		return err
	}
	return by.Adopt(ctx, have)
}

func (p Placer) isForming(of gang.Members, pod *corev1.Pod) bool {
	return p.forming.of(of.Graph)[pod.UID]
}
