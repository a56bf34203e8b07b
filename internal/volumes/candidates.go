// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// volume is a PersistentVolume with its parsed node affinity.
type volume struct {
	*corev1.PersistentVolume
	// required is nil for a volume that can be used everywhere. nowhere: the affinity is invalid and matches no node.
	required *nodeaffinity.NodeSelector
	nowhere  bool
	// keys are the affinity's labels. Field in is a mandatory requirement with operator In; nil for none.
	keys []string
	in   *corev1.NodeSelectorRequirement
}

// capacity is a CSIStorageCapacity with its parsed node selector.
type capacity struct {
	*storagev1.CSIStorageCapacity
	nodes labels.Selector
}

// capacityOf parses the node selector of a capacity. An invalid or missing selector matches no node.
func capacityOf(of *storagev1.CSIStorageCapacity) *capacity {
	nodes, err := metav1.LabelSelectorAsSelector(of.NodeTopology)
	if err != nil {
		nodes = labels.Nothing()
	}
	return &capacity{of, nodes}
}

// holds reports whether a volume of the size can be provisioned from the capacity.
func (c *capacity) holds(size int64) bool {
	limit := c.Capacity
	if c.MaximumVolumeSize != nil {
		limit = c.MaximumVolumeSize
	}
	return limit != nil && limit.Value() >= size
}

// candidates are the existing volumes that a claim may get.
type candidates struct {
	// kept is the volume that is reserved for the claim. The claim can get no other volume.
	kept *volume
	// by[label][value] lists the volumes that require this label value of the node. rest lists the other volumes.
	by   map[string]map[string][]*volume
	rest []*volume
	// keys are the labels in the volumes' affinities, sorted. byLabels caches the usable volumes by the values of these labels.
	keys     []string
	byLabels map[string][]*volume
}

// chooses reports whether the claim may get an existing volume.
func (c *claim) chooses() bool {
	if c.class == nil || c.selected != "" {
		return false
	}
	free := c.candidates()
	return free.kept != nil || len(free.by)+len(free.rest) > 0
}

// candidates returns the existing volumes that the claim may get.
func (c *claim) candidates() *candidates {
	if c.free != nil {
		return c.free
	}
	c.free = &candidates{by: map[string]map[string][]*volume{}, byLabels: map[string][]*volume{}}
	among, keys := c.store.ofClass(c.class.Name), map[string]bool{}
	c.spent(len(among))
	for _, v := range among {
		switch {
		case !offers(v.PersistentVolume, c.object):
			continue
		case isFor(v.PersistentVolume, c.object):
			c.free.kept, c.free.keys = v, slices.Compact(slices.Sorted(slices.Values(v.keys)))
			return c.free
		case v.Spec.ClaimRef == nil && suits(v.PersistentVolume, c.object):
			c.free.add(v)
			for _, key := range v.keys {
				keys[key] = true
			}
		}
	}
	c.free.keys = slices.Sorted(maps.Keys(keys))
	return c.free
}

func (f *candidates) add(v *volume) {
	if v.in == nil {
		f.rest = append(f.rest, v)
		return
	}
	if f.by[v.in.Key] == nil {
		f.by[v.in.Key] = map[string][]*volume{}
	}
	for _, value := range v.in.Values {
		f.by[v.in.Key][value] = append(f.by[v.in.Key][value], v)
	}
}

// near lists the volumes that may be usable on a node with the given labels.
func (f *candidates) near(of map[string]string) (out []*volume) {
	if f.kept != nil {
		return []*volume{f.kept}
	}
	for key, values := range f.by {
		if value, has := of[key]; has {
			out = append(out, values[value]...)
		}
	}
	return append(out, f.rest...)
}

// reachable lists the volumes that the claim may get on a node with the given labels, in the kube-scheduler's order: by size, then by name.
func (c *claim) reachable(of map[string]string) []*volume {
	if !c.chooses() {
		return nil
	}
	f := c.candidates()
	var b strings.Builder
	for _, key := range f.keys {
		value, has := of[key]
		if b.WriteString(value + "\x00"); has {
			b.WriteString("\x01")
		}
	}
	out, known := f.byLabels[b.String()]
	if c.spent(len(f.keys)); known {
		return out
	}
	near := f.near(of)
	c.spent(len(near))
	for _, v := range near {
		if c.store.reaches(v, of) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, bySize)
	out = slices.Compact(out)
	f.byLabels[b.String()] = out
	return out
}

func bySize(a, b *volume) int {
	x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return cmp.Or(x.Cmp(y), cmp.Compare(a.Name, b.Name))
}
