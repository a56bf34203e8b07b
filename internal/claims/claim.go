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

// claim is one claim of pods.
type claim struct {
	name types.NamespacedName
	// title is the name of the claim in messages.
	title string
	// object is the claim to allocate, without an allocation; nil if the claim needs no allocation.
	object *resourcev1.ResourceClaim
	// own: the claim is created for one pod, so pods whose own claims have equal specs are equivalent.
	own bool
	// unusable is the reason that keeps the claim's pods off every node; "" for none.
	unusable string
	// allocated: the claim already has its devices. usable selects the nodes on which these devices can be used; nil: all nodes.
	allocated bool
	usable    *nodeaffinity.NodeSelector
	// text is equal for claims that request the same devices.
	text string
}

// claimsOf returns the known claims of a pod; all reports whether all claims of the pod are known.
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

// claimOf returns one claim of a pod; nil for a claim that is not needed or not known.
func (s *Store) claimOf(pod *corev1.Pod, entry *corev1.PodResourceClaim) (c *claim, known bool) {
	if entry.ResourceClaimName != nil {
		return s.named(types.NamespacedName{Namespace: pod.Namespace, Name: *entry.ResourceClaimName}, nil)
	}
	for i := range pod.Status.ResourceClaimStatuses {
		status := &pod.Status.ResourceClaimStatuses[i]
		switch {
		case status.Name != entry.Name:
		case status.ResourceClaimName == nil:
			return nil, true // the pod needs no claim
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

// named reads a claim by its name. owner is the pod for which the claim was created; nil for a claim that pods refer to by name.
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
		c.text += " " + string(o.UID) // a recreated claim may request other devices
		return s.unallocated(c, &o.Spec)
	}
	return c, true
}

// fromTemplate returns the claim that will be created for a pod.
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

// ofTemplate is the title of claims created from a template.
func ofTemplate(name string) string { return "resource claim of template " + name }

// readAllocation reads the selector of the nodes on which an allocated claim can be used.
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

// unallocated reads the requests of a claim without an allocation.
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

// keeps returns the reason that keeps pods with the claim off a node regardless of other pods and free devices.
func (c *claim) keeps(node *corev1.Node) string {
	switch {
	case c.unusable != "":
		return c.unusable
	case c.usable != nil && !c.usable.Match(node):
		return c.title + " is allocated elsewhere"
	}
	return ""
}

// wanted is a request, or one of its alternatives.
type wanted struct {
	class     string
	mode      resourcev1.DeviceAllocationMode
	count     int64
	selectors []resourcev1.DeviceSelector
	derived   bool
}

// alternatives lists the alternatives of a request.
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

// beyondOf returns the reason why a claim is not counted; "" if the claim is counted.
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
