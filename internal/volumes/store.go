// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Store contains the volumes of a cluster and the objects that they refer to. It never changes these objects.
type Store struct {
	// Partial: the cluster may have claims or CSINodes that are not in the store; rules about unknown objects are ignored.
	Partial bool

	claims     map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes    map[string]*volume
	classes    map[string]*storagev1.StorageClass
	nodes      map[string]*storagev1.CSINode
	drivers    map[string]*storagev1.CSIDriver
	capacities map[types.NamespacedName]*capacity
	// byClass contains the volumes of each class, sorted by name; nil: must be sorted again.
	byClass map[string][]*volume
	// coming contains claims that will be created and that are ignored until they exist.
	coming map[types.NamespacedName]bool
	// version changes with every change of the store.
	version int
	// matched counts the comparisons of a volume's affinity with a node; parsed counts the affinities parsed.
	matched, parsed int
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		claims: map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, volumes: map[string]*volume{},
		classes: map[string]*storagev1.StorageClass{}, nodes: map[string]*storagev1.CSINode{}, drivers: map[string]*storagev1.CSIDriver{},
		capacities: map[types.NamespacedName]*capacity{}, coming: map[types.NamespacedName]bool{},
	}
}

// Set adds or replaces an object. Objects of other kinds are ignored.
func (s *Store) Set(object any) {
	s.version++
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		s.claims[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
	case *corev1.PersistentVolume:
		s.volumes[o.Name], s.byClass = s.volumeOf(o), nil
	case *storagev1.StorageClass:
		s.classes[o.Name] = o
	case *storagev1.CSINode:
		s.nodes[o.Name] = o
	case *storagev1.CSIDriver:
		s.drivers[o.Name] = o
	case *storagev1.CSIStorageCapacity:
		s.capacities[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = capacityOf(o)
	}
}

// Delete removes an object.
func (s *Store) Delete(object any) {
	s.version++
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		delete(s.claims, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case *corev1.PersistentVolume:
		delete(s.volumes, o.Name)
		s.byClass = nil
	case *storagev1.StorageClass:
		delete(s.classes, o.Name)
	case *storagev1.CSINode:
		delete(s.nodes, o.Name)
	case *storagev1.CSIDriver:
		delete(s.drivers, o.Name)
	case *storagev1.CSIStorageCapacity:
		delete(s.capacities, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	}
}

// Expect adds a claim that will be created, unless the store has a claim with the same name. Like the API server, it sets the default class
// if the claim has none. If the class waits for its first consumer, the class determines where the volume can be. Otherwise the claim is
// ignored until it exists.
func (s *Store) Expect(c *corev1.PersistentVolumeClaim) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	if s.claims[name] != nil {
		return
	}
	if c.Spec.StorageClassName == nil && classOfClaim(c) == "" {
		c = c.DeepCopy()
		c.Spec.StorageClassName = s.defaultClass()
	}
	if waits(s.classes[classOfClaim(c)]) {
		s.Set(c)
		return
	}
	s.version++
	s.coming[name] = true
}

// defaultClass returns the name of the newest default class; nil for none.
func (s *Store) defaultClass() *string {
	var newest *storagev1.StorageClass
	for _, class := range s.classes {
		if class.Annotations[isDefaultClass] != "true" {
			continue
		}
		if newest == nil || class.CreationTimestamp.After(newest.CreationTimestamp.Time) ||
			class.CreationTimestamp.Equal(&newest.CreationTimestamp) && class.Name < newest.Name {
			newest = class
		}
	}
	if newest == nil {
		return nil
	}
	return &newest.Name
}

// ofClass lists the volumes of a class.
func (s *Store) ofClass(class string) []*volume {
	if s.byClass == nil {
		s.byClass = map[string][]*volume{}
		for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
			of := classOfVolume(s.volumes[name].PersistentVolume)
			s.byClass[of] = append(s.byClass[of], s.volumes[name])
		}
	}
	return s.byClass[class]
}
