// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// GenerationCount is the number of a component's replicas in one generation of workers.
type GenerationCount struct {
	// Name of the generation; empty for workers without generations.
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	// Images of the main containers of the generation's pods, sorted.
	Images []string `json:"images,omitempty"`
}

// generationsOf counts the replicas of a component by generation. The generation with the oldest pod comes first. It returns nil if there
// is only one generation.
func generationsOf(s Observed, component string) []GenerationCount {
	type seen struct {
		replicas, images map[string]bool
		oldest           int64
	}
	byName := map[string]seen{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Labels[render.LabelComponent] != render.LabelValue(component) || pod.DeletionTimestamp != nil {
			continue
		}
		name, created := pod.Labels[render.LabelWorkerHash], pod.CreationTimestamp.Unix()
		g, known := byName[name]
		if !known {
			g = seen{map[string]bool{}, map[string]bool{}, created}
		}
		g.replicas[pod.Labels[render.LabelReplica]] = true
		for j := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[j]; c.Name == nvidiav1beta1.MainContainerName && c.Image != "" {
				g.images[c.Image] = true
			}
		}
		g.oldest = min(g.oldest, created)
		byName[name] = g
	}
	if len(byName) < 2 {
		return nil
	}
	var out []GenerationCount
	for name, g := range byName {
		out = append(out, GenerationCount{name, len(g.replicas), slices.Sorted(maps.Keys(g.images))})
	}
	slices.SortFunc(out, func(a, b GenerationCount) int {
		return cmp.Or(cmp.Compare(byName[a.Name].oldest, byName[b.Name].oldest), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// maxImages is the maximum number of images that a line names for a generation.
const maxImages = 2

// stuckReasons are the reasons of the condition RolledOut for an update that does not progress by itself.
var stuckReasons = []string{nvidiav1beta1.ReasonProgressDeadlineExceeded, nvidiav1beta1.ReasonRolloutWaitsForCapacity}

// howToAbort returns the command that aborts a stuck update of the workers; "" if no update is stuck.
func (r Status) howToAbort() string {
	rolling := slices.IndexFunc(r.Conditions, func(c Condition) bool { return c.Type == nvidiav1beta1.ConditionRolledOut })
	if rolling < 0 || r.Conditions[rolling].Reason == nvidiav1beta1.ReasonRolledBack {
		return ""
	}
	overdue := slices.Contains(stuckReasons, r.Conditions[rolling].Reason)
	if !slices.ContainsFunc(r.Components, func(c Component) bool { return len(c.Generations) > 1 && (c.failing() || overdue) }) {
		return ""
	}
	return fmt.Sprintf("the update is stuck: kubectl trellis rollout abort dgd/%s -n %s returns to the generation before", r.Name, r.Namespace)
}

// generations renders a line about the generations of a component; "" if there is only one generation.
func (s Component) generations() string {
	parts := make([]string, 0, len(s.Generations))
	for _, g := range s.Generations {
		part := text.Count(g.Replicas, "replica") + " of " + cmp.Or(g.Name, "none")
		if len(g.Images) > 0 {
			part += " (" + limit.Join(g.Images, len(g.Images), maxImages, ", ") + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("generations of %s: %s", s.Name, strings.Join(parts, ", "))
}
