// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// shapeKey serializes the fields on which a shape depends. Equal texts mean equal shapes.
func shapeKey(pod *corev1.Pod, s *Shape) string {
	var b strings.Builder
	b.WriteString(s.load.key())
	for _, name := range slices.Sorted(maps.Keys(s.selector)) {
		b.WriteString("|s:" + strconv.Quote(name) + strconv.Quote(s.selector[name]))
	}
	if terms := requiredNodeTerms(pod); terms != nil {
		b.WriteString("|a:")
		writeJSON(&b, terms)
	}
	if s.preferred != nil {
		b.WriteString("|w:")
		writeJSON(&b, pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if len(s.tolerations) > 0 {
		b.WriteString("|t:")
		writeJSON(&b, sortedTolerations(s.tolerations))
	}
	b.WriteString(featureText(s.features))
	if s.binds { // interchangeable only with pods that have the same rules
		b.WriteString("|u:" + pod.Namespace)
		writeJSON(&b, pod.Spec.Affinity)
		writeJSON(&b, pod.Spec.TopologySpreadConstraints)
		writeJSON(&b, pod.Spec.ResourceClaims)
		writeJSON(&b, claimNames(pod))
	}
	return b.String()
}

// key serializes a load.
func (l *load) key() string {
	var b strings.Builder
	for _, r := range l.requests {
		b.WriteString(r.Name + "=" + strconv.FormatInt(r.Amount, 10) + ",")
	}
	for _, p := range l.ports {
		b.WriteString("|p:" + p.text())
	}
	for _, e := range l.exclusive {
		b.WriteString("|x:" + e)
	}
	return b.String()
}

// writeJSON appends a value as JSON; API types always marshal.
func writeJSON(b *strings.Builder, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error())
	}
	b.Write(text)
}

func sortedTolerations(in []corev1.Toleration) []corev1.Toleration {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b corev1.Toleration) int {
		return strings.Compare(tolerationText(&a), tolerationText(&b))
	})
	return out
}

func tolerationText(t *corev1.Toleration) string {
	return t.Key + "\x00" + string(t.Operator) + "\x00" + t.Value + "\x00" + string(t.Effect)
}

func claimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			names = append(names, c.ClaimName)
		}
	}
	return names
}
