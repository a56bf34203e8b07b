// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
)

// claim is a PersistentVolumeClaim that pods of the plan use.
type claim struct {
	store *Store
	name  types.NamespacedName
	// object is the claim or, while the claim does not exist, an object derived from a pod's template.
	object *corev1.PersistentVolumeClaim
	// unusable is the reason that keeps the claim's pods off every node; "" for none.
	unusable string
	// volume is the bound volume.
	volume *volume
	// class is the storage class that provisions the volume once a pod has a node; nil for a claim that has a volume.
	class *storagev1.StorageClass
	// selected is the node for which the volume is being provisioned.
	selected string
	// own: the claim is created for one pod, so pods whose own claims have equal specs are equivalent.
	own bool
	// free are the existing volumes that the claim may get. They are read on demand.
	free *candidates
	// lacks is, by node, the reason why no volume can be provisioned for the claim.
	lacks map[string]string
	// spend counts comparisons; nil: they are not counted.
	spend func(comparisons int)
}

// claimsOf returns the claims of a pod's volumes.
func (s *Store) claimsOf(pod *corev1.Pod) (list []*claim) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			list = append(list, s.claim(pod.Namespace, v.PersistentVolumeClaim.ClaimName))
		case v.Ephemeral != nil:
			list = append(list, s.ephemeral(pod, v))
		}
	}
	return slices.DeleteFunc(list, func(c *claim) bool { return c == nil })
}

// claim returns a claim by its name; nil for a claim that may exist but is not known.
func (s *Store) claim(namespace, name string) *claim {
	c := &claim{store: s, name: types.NamespacedName{Namespace: namespace, Name: name}}
	if c.object = s.claims[c.name]; c.object == nil {
		if s.Partial || s.coming[c.name] {
			return nil
		}
		c.unusable = "volume claim " + name + " does not exist"
		return c
	}
	c.read()
	return c
}

// ephemeral returns the claim of an ephemeral volume. While the claim does not exist, it is derived from the volume's template.
func (s *Store) ephemeral(pod *corev1.Pod, v *corev1.Volume) *claim {
	name := ephemeral.VolumeClaimName(pod, v)
	if object := s.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; object != nil {
		c := s.claim(pod.Namespace, name)
		c.own = true
		if pod.UID != "" && ephemeral.VolumeIsForPod(pod, object) != nil {
			c.unusable = "volume claim " + name + " is not the pod's own"
		}
		return c
	}
	if v.Ephemeral.VolumeClaimTemplate == nil || s.Partial && len(s.classes) == 0 {
		return nil
	}
	c := &claim{store: s, name: types.NamespacedName{Namespace: pod.Namespace, Name: name}, own: true}
	c.object = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Labels: v.Ephemeral.VolumeClaimTemplate.Labels},
		Spec:       v.Ephemeral.VolumeClaimTemplate.Spec,
	}
	c.read()
	if c.class == nil && c.volume == nil {
		return nil // it will be bound or refused once it exists
	}
	return c
}

// read determines the state of a claim.
func (c *claim) read() {
	o := c.object
	text := "volume claim " + o.Name
	switch {
	case o.Status.Phase == corev1.ClaimLost:
		c.unusable = text + " has lost its volume"
	case o.DeletionTimestamp != nil:
		c.unusable = text + " is being deleted"
	case o.Spec.VolumeName != "" && metav1.HasAnnotation(o.ObjectMeta, AnnBindCompleted):
		if c.volume = c.store.volumes[o.Spec.VolumeName]; c.volume == nil && !c.store.Partial {
			c.unusable = fmt.Sprintf("volume %s of claim %s does not exist", o.Spec.VolumeName, o.Name)
		}
	default:
		c.unusable = c.readClass(text)
	}
}

// readClass finds the storage class that provisions the volume of an unbound claim. It returns the reason if the volume cannot be
// provisioned.
func (c *claim) readClass(text string) (unusable string) {
	name := classOfClaim(c.object)
	class := c.store.classes[name]
	switch {
	case name != "" && class == nil && c.store.Partial:
		return ""
	case c.object.Spec.VolumeName != "":
		return text + " is not bound to its volume yet"
	case name == "":
		return text + " has no volume, and no storage class"
	case class == nil:
		return text + " has no volume, and storage class " + name + " does not exist"
	case !waits(class):
		return text + " is not bound yet"
	}
	c.class, c.selected = class, c.object.Annotations[AnnSelectedNode]
	return ""
}

// text is equal for claims that keep pods off the same nodes. It is the claim's name or, for a claim that is created for one pod, the
// claim's spec.
func (c *claim) text() string {
	if c.unusable != "" || c.volume != nil || !c.own || c.selected != "" {
		return c.name.String()
	}
	spec, err := json.Marshal(c.object.Spec)
	if err != nil {
		return c.name.String()
	}
	return "own " + string(spec)
}

// keeps returns the reason that keeps pods with the claim off a node regardless of other pods.
func (c *claim) keeps(node string, of map[string]string) string {
	switch {
	case c.unusable != "":
		return c.unusable
	case c.volume != nil:
		return c.store.reach(c.volume, of)
	case c.selected != "" && c.selected != node:
		return fmt.Sprintf("volume of claim %s is made for %s", c.name.Name, c.selected)
	case c.class != nil:
		_, why := c.choice(node, of, nil)
		return why
	}
	return ""
}

// choice returns the volume that an unbound claim gets for a pod on a node: an existing volume for which taken returns false, or nil for a
// volume that will be provisioned. If the claim gets no volume, it returns the reason. If taken is nil, all existing volumes count as free.
func (c *claim) choice(node string, of map[string]string, taken func(*volume) bool) (v *volume, why string) {
	for _, v := range c.reachable(of) {
		if c.spent(1); taken == nil || !taken(v) {
			return v, ""
		}
	}
	why, known := c.lacks[node]
	if !known {
		if why = c.lacking(of); c.lacks == nil {
			c.lacks = map[string]string{}
		}
		c.lacks[node] = why
	}
	return nil, why
}

// lacking returns the reason why no volume can be provisioned for a claim on a node.
func (c *claim) lacking(of map[string]string) string {
	switch {
	case c.class.Provisioner == "" || c.class.Provisioner == NoProvisioner:
		return fmt.Sprintf("no volume of class %s for claim %s", c.class.Name, c.name.Name)
	case !allows(c.class.AllowedTopologies, of):
		return fmt.Sprintf("storage class %s allows no volume for claim %s", c.class.Name, c.name.Name)
	case !c.store.hasCapacity(c, of):
		return fmt.Sprintf("storage class %s is short of capacity for claim %s", c.class.Name, c.name.Name)
	}
	return ""
}

func (c *claim) spent(comparisons int) {
	if c.spend != nil {
		c.spend(comparisons)
	}
}

// allows reports whether a node is in one of the allowed topologies of a class. A class without allowed topologies allows all nodes.
func allows(terms []corev1.TopologySelectorTerm, of map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t corev1.TopologySelectorTerm) bool {
		return len(t.MatchLabelExpressions) > 0 && !slices.ContainsFunc(t.MatchLabelExpressions,
			func(e corev1.TopologySelectorLabelRequirement) bool {
				value, has := of[e.Key]
				return !has || !slices.Contains(e.Values, value)
			})
	})
}

// hasCapacity reports whether the driver of a class reports enough capacity for a claim on a node. It returns true for a driver that
// reports no capacities.
func (s *Store) hasCapacity(c *claim, of map[string]string) bool {
	size, asked := c.object.Spec.Resources.Requests[corev1.ResourceStorage]
	driver := s.drivers[c.class.Provisioner]
	if !asked || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return true
	}
	c.spent(len(s.capacities))
	for _, one := range s.capacities {
		if one.StorageClassName == c.class.Name && one.holds(size.Value()) && one.nodes.Matches(labels.Set(of)) {
			return true
		}
	}
	return false
}

// handle identifies the volume of a claim within the volume's driver, even if the claim is unusable; "" for a volume that no driver
// attaches.
func (c *claim) handle() (driver, handle string) {
	if c.object == nil {
		return "", ""
	}
	if v := c.store.volumes[c.object.Spec.VolumeName]; v != nil {
		if v.Spec.CSI == nil {
			return "", ""
		}
		return v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle
	}
	class := c.store.classes[classOfClaim(c.object)]
	if class == nil {
		return "", ""
	}
	return class.Provisioner, "claim " + c.name.String()
}

// exclusive reports whether only one pod at a time may use the claim.
func (c *claim) exclusive() bool {
	return c.object != nil && slices.Contains(c.object.Spec.AccessModes, corev1.ReadWriteOncePod)
}
