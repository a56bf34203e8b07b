// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// claim is one claim of pods, and what is known of it.
type claim struct {
	name types.NamespacedName
	// title is how messages name it.
	title string
	// object is what the allocator is asked for; it has no allocation.
	object *resourcev1.ResourceClaim
	// own: it is made for one pod, so that pods with such claims are alike.
	own bool
	// unusable is what keeps its pods off every node; "" for nothing.
	unusable string
	// allocated says that it has its devices, and usable where; nil: everywhere.
	allocated bool
	usable    *nodeaffinity.NodeSelector
	// text is equal for claims that ask for the same devices.
	text string
}

// claimsOf reads the claims of a pod. A claim that is not known, when that says nothing, is left out; all says that there is no such claim.
func (s *Store) claimsOf(pod *corev1.Pod) (list []*claim, all bool) {
	all = true
	for i := range pod.Spec.ResourceClaims {
		c, known := s.claimOf(pod, &pod.Spec.ResourceClaims[i])
		all = all && known
		if c != nil {
			list = append(list, c)
		}
	}
	return list, all
}

// claimOf reads one claim of a pod; nil for one that is not needed, or not known.
func (s *Store) claimOf(pod *corev1.Pod, entry *corev1.PodResourceClaim) (c *claim, known bool) {
	if entry.ResourceClaimName != nil {
		return s.named(types.NamespacedName{Namespace: pod.Namespace, Name: *entry.ResourceClaimName}, nil)
	}
	for i := range pod.Status.ResourceClaimStatuses {
		status := &pod.Status.ResourceClaimStatuses[i]
		switch {
		case status.Name != entry.Name:
		case status.ResourceClaimName == nil:
			return nil, true // none was made, as none is needed
		case s.claims[types.NamespacedName{Namespace: pod.Namespace, Name: *status.ResourceClaimName}] != nil:
			c, known = s.named(types.NamespacedName{Namespace: pod.Namespace, Name: *status.ResourceClaimName}, pod)
			if c != nil && c.unusable == "" && entry.ResourceClaimTemplateName != nil {
				c.title = ofTemplate(*entry.ResourceClaimTemplateName)
			}
			return c, known
		}
	}
	if entry.ResourceClaimTemplateName == nil {
		return nil, false
	}
	return s.fromTemplate(types.NamespacedName{Namespace: pod.Namespace, Name: *entry.ResourceClaimTemplateName})
}

// named reads a claim by its name. owner is the pod that it was made for; nil for a claim that pods name.
func (s *Store) named(name types.NamespacedName, owner *corev1.Pod) (*claim, bool) {
	o := s.claims[name]
	c := &claim{name: name, title: "resource claim " + name.Name, own: owner != nil, text: "claim " + name.String()}
	switch {
	case o == nil && s.Partial:
		return nil, false
	case o == nil:
		c.unusable = c.title + " does not exist"
	case o.DeletionTimestamp != nil:
		c.unusable = c.title + " is being deleted"
	case owner != nil && owner.UID != "" && !metav1.IsControlledBy(o, owner):
		c.unusable = c.title + " is not the pod's own"
	case o.Status.Allocation != nil:
		c.text = "allocated " + c.text + " " + string(o.UID)
		c.readAllocation(o.Status.Allocation)
	default:
		c.text += " " + string(o.UID) // one that is recreated may ask for other devices
		return s.unallocated(c, &o.Spec)
	}
	return c, true
}

// fromTemplate reads the claim that will be made for a pod.
func (s *Store) fromTemplate(name types.NamespacedName) (*claim, bool) {
	c := &claim{name: name, title: ofTemplate(name.Name), own: true, text: "template " + name.String()}
	t := s.templates[name]
	switch {
	case t != nil:
		return s.unallocated(c, &t.Spec.Spec)
	case s.Partial:
		return nil, false
	}
	c.unusable = "resource claim template " + name.Name + " does not exist"
	return c, true
}

// ofTemplate names the claims that are made from a template.
func ofTemplate(name string) string { return "resource claim of template " + name }

// readAllocation reads where a claim that has its devices can be used.
func (c *claim) readAllocation(a *resourcev1.AllocationResult) {
	c.allocated = true
	if a.NodeSelector == nil {
		return
	}
	var err error
	if c.usable, err = nodeaffinity.NewNodeSelector(a.NodeSelector); err != nil {
		c.unusable = c.title + " is allocated to nodes that cannot be read"
	}
}

// unallocated reads what a claim asks for.
func (s *Store) unallocated(c *claim, spec *resourcev1.ResourceClaimSpec) (*claim, bool) {
	for i := range spec.Devices.Requests {
		for _, r := range alternatives(&spec.Devices.Requests[i]) {
			switch {
			case s.classes[r.class] != nil:
			case s.Partial:
				return nil, false
			default:
				c.unusable = fmt.Sprintf("device class %s of %s does not exist", r.class, c.title)
				return c, true
			}
		}
	}
	c.object = &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.name.Namespace, Name: c.name.Name, UID: types.UID(c.text)},
		Spec: *spec}
	if text, err := json.Marshal(spec); err == nil && c.own {
		c.text = "own " + string(text)
	}
	return c, true
}

// keeps describes what keeps pods with the claim off a node, whatever other pods do and whatever devices are free.
func (c *claim) keeps(node *corev1.Node) string {
	switch {
	case c.unusable != "":
		return c.unusable
	case c.usable != nil && !c.usable.Match(node):
		return c.title + " is allocated elsewhere"
	}
	return ""
}

// wanted is what a request asks for, or one of its alternatives.
type wanted struct {
	class     string
	mode      resourcev1.DeviceAllocationMode
	count     int64
	selectors []resourcev1.DeviceSelector
	derived   bool
}

// alternatives lists what a request may be met by.
func alternatives(r *resourcev1.DeviceRequest) (list []wanted) {
	if e := r.Exactly; e != nil {
		list = append(list, wanted{e.DeviceClassName, e.AllocationMode, e.Count, e.Selectors, len(e.DerivedAttributes) > 0})
	}
	for i := range r.FirstAvailable {
		f := &r.FirstAvailable[i]
		list = append(list, wanted{f.DeviceClassName, f.AllocationMode, f.Count, f.Selectors, len(f.DerivedAttributes) > 0})
	}
	return list
}

// beyondOf explains why a claim is not counted; "" when it is.
func (s *Store) beyondOf(c *claim) string {
	if c.object == nil {
		return ""
	}
	for i := range c.object.Spec.Devices.Requests {
		for _, r := range alternatives(&c.object.Spec.Devices.Requests[i]) {
			if r.derived {
				return c.name.Name + " has derived attributes"
			}
		}
	}
	return s.tooDear(c)
}
