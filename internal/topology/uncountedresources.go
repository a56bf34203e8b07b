// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Uncounted resources follow the kube-scheduler's NodeResourcesFit plugin:
//
//  - A resource that the scheduler is configured to ignore counts on no node, because an extender decides about it.
//  - A resource that a DeviceClass serves counts on the nodes whose kubelet offers it through a device plugin. On other nodes the
//    kube-scheduler creates a claim for it and allocates devices, which are not counted here.

// Ignored contains the resources that the kube-scheduler ignores: names such as example.com/gpumem, and groups such as example.com, which
// stand for all names in the group. As in the kube-scheduler, only extended resources can be ignored.
type Ignored struct{ names, groups map[string]bool }

// IgnoredResources parses a list of names and groups. Names have a slash, groups have none.
func IgnoredResources(list []string) Ignored {
	i := Ignored{map[string]bool{}, map[string]bool{}}
	for _, entry := range list {
		if strings.Contains(entry, "/") {
			i.names[entry] = true
		} else {
			i.groups[entry] = true
		}
	}
	return i
}

func (i Ignored) has(name string) bool {
	group, _, prefixed := strings.Cut(name, "/")
	return prefixed && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		(i.names[name] || i.groups[group])
}

// Ignore sets the ignored resources. Call it before the first pod is added.
func (c *Cluster) Ignore(i Ignored) { c.ignored = i }

// ServedBy lists the resources that DeviceClasses serve: the implicit name of each class, and the extended resource name of each class that
// has one.
func ServedBy(classes []*resourcev1.DeviceClass) []string {
	served := map[string]bool{}
	for _, class := range classes {
		served[resourcev1.ResourceDeviceClassPrefix+class.Name] = true
		if name := class.Spec.ExtendedResourceName; name != nil && *name != "" {
			served[*name] = true
		}
	}
	return slices.Sorted(maps.Keys(served))
}

// Serve replaces the resources that DeviceClasses serve, and reports whether they changed. A change makes every view recount all nodes.
func (c *Cluster) Serve(names []string) (changed bool) {
	served := make(map[string]bool, len(names))
	for _, name := range names {
		served[name] = true
	}
	if maps.Equal(served, c.served) {
		return false
	}
	c.served = served
	for _, h := range c.loads {
		for i := range h.wants {
			h.wants[i].served = served[h.wants[i].name]
		}
	}
	c.log.forget()
	c.specs++
	return true
}

// counts reports whether a wanted resource is counted on the node.
func (n *node) counts(w *want) bool {
	return !w.ignored && (!w.served || n.has(w.resource))
}

// has reports whether the node offers a resource, used or not.
func (n *node) has(resource int) bool {
	return resource != notOffered && resource < len(n.free) && n.free[resource] > 0
}

// Served lists, sorted by name, the resources of a shape that DeviceClasses serve. They are not counted on nodes that do not offer them.
func (c *Cluster) Served(s *Shape) (names []string) {
	if len(c.served) == 0 {
		return nil
	}
	for _, r := range s.load.requests {
		if c.served[r.Name] && !c.ignored.has(r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// ServesNone reports whether DeviceClasses serve no resources.
func (c *Cluster) ServesNone() bool { return len(c.served) == 0 }

// Offers reports whether a node offers a resource, used or not.
func (c *Cluster) Offers(node, resource string) bool {
	n, known := c.byName[node]
	return known && n.has(c.resources.of(resource))
}
