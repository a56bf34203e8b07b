// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// zoneLabels are the labels by which the plugin VolumeZone compares volumes and nodes.
var zoneLabels = []string{
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
}

// stable maps each beta label to the label that replaced it.
var stable = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
}

// zoned reports whether a volume has a zone or region label.
func zoned(v *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(zoneLabels, func(label string) bool { _, has := v.Labels[label]; return has })
}

// inZones reports whether the zone labels of a volume and of a node match. A node without any zone label matches every volume.
func inZones(v *corev1.PersistentVolume, of map[string]string) bool {
	if !slices.ContainsFunc(zoneLabels, func(label string) bool { _, has := of[label]; return has }) {
		return true
	}
	for _, label := range zoneLabels {
		value, limited := v.Labels[label]
		if !limited {
			continue
		}
		at, has := of[label]
		if !has {
			at, has = of[stable[label]]
		}
		if !has || !slices.Contains(strings.Split(value, "__"), at) {
			return false
		}
	}
	return true
}
