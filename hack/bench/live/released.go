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

// AsReleasedName and GatedName name the ways that [Cluster.AsReleased] returns.
const (
	AsReleasedName = "bare pods pinned as released"
	GatedName      = "pods alone, gated and released"
)

// AsReleased binds packed deployments once and returns two ways with the same number of pods, which the client creates with the
// deployments' pins, gang by gang: bare pods with the same node selectors and node affinities from the start, and pods with the full
// content of the deployments' pods, which are created gated and get the pins at their release.
func (c *Cluster) AsReleased(ctx context.Context, gangs, podsPerGang int) (bare, gated Way, err error) {
	_, err = c.bind(ctx, Packed, gangs, podsPerGang, func(p *pods) error {
		byGang, err := releasedGangs(p)
		bare, gated = asReleased(byGang), asGated(byGang)
		return err
	})
	return bare, gated, err
}

// releasedGangs returns the pods of each gang by name. A pod without pins is an error, because there is nothing to compare with.
func releasedGangs(p *pods) (map[string][]*corev1.Pod, error) {
	byGang := map[string][]*corev1.Pod{}
	for _, pod := range p.byName {
		if len(pod.Spec.NodeSelector) == 0 {
			return nil, fmt.Errorf("pod %s was released without a node selector", pod.Name)
		}
		byGang[Packed.gangOf(pod)] = append(byGang[Packed.gangOf(pod)], pod)
	}
	if len(byGang) == 0 {
		return nil, errors.New("no pod was released")
	}
	for _, gang := range byGang {
		slices.SortFunc(gang, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	}
	return byGang, nil
}

func asReleased(byGang map[string][]*corev1.Pod) Way {
	return Way{Name: AsReleasedName, gangOf: gangLabel, objects: func(hall.Shape, int, int) [][]client.Object {
		var members []client.Object
		for gang, pods := range byGang {
			for i, pod := range pods {
				members = append(members, pinnedAs(pod, fmt.Sprintf("%s-%d", gang, i), gang))
			}
		}
		slices.SortFunc(members, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return [][]client.Object{members}
	}}
}

// pinnedAs returns a bare pod with the pins of another pod.
func pinnedAs(pod *corev1.Pod, name, gang string) *corev1.Pod {
	p := barePod(name, gang, hall.GPUs)
	p.Spec.NodeSelector = pod.Spec.NodeSelector
	if pod.Spec.Affinity != nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: pod.Spec.Affinity.NodeAffinity}
	}
	return p
}
