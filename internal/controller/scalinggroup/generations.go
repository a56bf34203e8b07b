// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// generationsOf counts the outdated replicas of workers by generation. It returns the generations with the most available replicas, at most
// MaxGenerations, sorted by name; none for a group without generations.
func generationsOf(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) []trellisv1alpha1.GenerationCount {
	if render.GenerationOf(sg) == "" {
		return nil
	}
	counts := map[string]trellisv1alpha1.GenerationCount{}
	for _, r := range replicas {
		if !r.outdated || !r.there() {
			continue
		}
		c := counts[r.generation]
		c.Name = r.generation
		c.Replicas++
		count(&c.AvailableReplicas, r.whole() && r.all(render.PodReady))
		counts[r.generation] = c
	}
	byAvailable := slices.SortedFunc(maps.Values(counts), func(a, b trellisv1alpha1.GenerationCount) int {
		return cmp.Or(cmp.Compare(b.AvailableReplicas, a.AvailableReplicas), cmp.Compare(a.Name, b.Name))
	})
	listed := byAvailable[:min(len(byAvailable), trellisv1alpha1.MaxGenerations)]
	slices.SortFunc(listed, func(a, b trellisv1alpha1.GenerationCount) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Clip(listed)
}

// progressOf returns the last progress of a group's update; nil when the update is over. The progress time restarts when the revision
// changes and when a paused update is resumed. inPlace reports whether the update continues in place from now on.
func progressOf(
	sg *trellisv1alpha1.ScalingGroup, status *trellisv1alpha1.ScalingGroupStatus, over, inPlace bool, now metav1.Time,
) *trellisv1alpha1.RolloutProgress {
	if over {
		return nil
	}
	p := trellisv1alpha1.RolloutProgress{
		Revision: sg.Spec.Revision, AvailableReplicas: status.UpdatedAvailableReplicas, Time: now,
		Paused: sg.Spec.Step != nil && sg.Spec.Step.Paused, InPlace: inPlace,
	}
	before := status.Progress
	if before == nil || before.Revision != p.Revision || before.Paused && !p.Paused || p.AvailableReplicas > before.AvailableReplicas {
		return &p
	}
	p.AvailableReplicas, p.Time = before.AvailableReplicas, before.Time
	return &p
}
