// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"strings"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// constraints describes the constraints of a graph; components with the same constraint share a line.
func constraints(groups []*trellisv1alpha1.ScalingGroup) []string {
	var texts, order []string
	components := map[string][]string{}
	for _, sg := range groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		if text := within("all pods", t.GraphPackDomain, t.GraphPreferredPackDomain); text != "" && texts == nil {
			texts = append(texts, text)
		}
		who := "all replicas"
		if sg.Spec.Multinode {
			who = "each replica"
		}
		parts := []string{within(who, t.PackDomain, t.PreferredPackDomain), spreadOver(t), alongside(t)}
		text := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
		if text == "" {
			continue
		}
		if components[text] == nil {
			order = append(order, text)
		}
		components[text] = append(components[text], sg.Spec.Component)
	}
	for _, text := range order {
		texts = append(texts, strings.Join(components[text], ", ")+": "+text)
	}
	return texts
}

// alongside returns "prefill alongside decode in each rack, if possible".
func alongside(t *trellisv1alpha1.ResolvedTopology) string {
	switch {
	case t.KVTransferDomain == "":
		return ""
	case t.KVTransferRequired:
		return "prefill alongside decode in each " + t.KVTransferDomain
	}
	return "prefill alongside decode in each " + t.KVTransferDomain + ", if possible"
}

// spreadOver returns "replicas spread over zones, over racks if possible".
func spreadOver(t *trellisv1alpha1.ResolvedTopology) string {
	var parts []string
	if t.SpreadDomain != "" {
		parts = append(parts, "over "+t.SpreadDomain+"s")
	}
	if t.PreferredSpreadDomain != "" {
		parts = append(parts, "over "+t.PreferredSpreadDomain+"s if possible")
	}
	if len(parts) == 0 {
		return ""
	}
	return "replicas spread " + strings.Join(parts, ", ")
}

// within returns "all pods in one zone, in one rack if possible".
func within(who, required, preferred string) string {
	var parts []string
	if required != "" {
		parts = append(parts, "in one "+required)
	}
	if preferred != "" {
		parts = append(parts, "in one "+preferred+" if possible")
	}
	if len(parts) == 0 {
		return ""
	}
	return who + " " + strings.Join(parts, ", ")
}
