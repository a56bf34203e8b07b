// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
)

// AsReleasedName names the way that [Cluster.AsReleased] returns.
const AsReleasedName = "bare pods pinned as released"

// AsReleased binds packed deployments once and returns the way of as many bare pods with the pins of those: the same node selectors and the
// same node affinities, gang by gang.
func (c *Cluster) AsReleased(ctx context.Context, gangs, podsPerGang int) (way Way, err error) {
	_, err = c.bind(ctx, Packed, gangs, podsPerGang, func(p *pods) error {
		way, err = asReleased(p)
		return err
	})
	return way, err
}

// asReleased is an error when a pod has no pins: then there is nothing to compare with.
func asReleased(p *pods) (Way, error) {
	byGang := map[string][]*corev1.Pod{}
	for _, pod := range p.byName {
		if len(pod.Spec.NodeSelector) == 0 {
			return Way{}, fmt.Errorf("pod %s was released without a node selector", pod.Name)
		}
		byGang[Packed.gangOf(pod)] = append(byGang[Packed.gangOf(pod)], pod)
	}
	if len(byGang) == 0 {
		return Way{}, errors.New("no pod was released")
	}
	for _, gang := range byGang {
		slices.SortFunc(gang, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	}
	return Way{Name: AsReleasedName, gangOf: gangLabel, objects: func(hall.Shape, int, int) [][]client.Object {
		var members []client.Object
		for gang, released := range byGang {
			for i, pod := range released {
				members = append(members, pinnedAs(pod, fmt.Sprintf("%s-%d", gang, i), gang))
			}
		}
		slices.SortFunc(members, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return [][]client.Object{members}
	}}, nil
}

// pinnedAs is a bare pod with the pins of another pod.
func pinnedAs(pod *corev1.Pod, name, gang string) *corev1.Pod {
	p := barePod(name, gang, hall.GPUs)
	p.Spec.NodeSelector = pod.Spec.NodeSelector
	if pod.Spec.Affinity != nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: pod.Spec.Affinity.NodeAffinity}
	}
	return p
}
