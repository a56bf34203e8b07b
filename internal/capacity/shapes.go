// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// ParseShape parses the resources that one kind of node provides for pods: "cpu=190,memory=1900Gi,nvidia.com/gpu=8".
func ParseShape(text string) (corev1.ResourceList, error) {
	shape := corev1.ResourceList{}
	for _, part := range strings.Split(text, ",") {
		name, amount, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not RESOURCE=AMOUNT, e.g. nvidia.com/gpu=8", part)
		}
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("the amount of %s, %q: %w", name, amount, err)
		}
		shape[corev1.ResourceName(name)] = quantity
	}
	return shape, nil
}

// tooLarge returns a message about those pods of a gang that no node could hold; "" if each pod fits some node. shapes are the kinds of
// nodes that an autoscaler can add. If shapes is empty, tooLarge uses the current nodes instead. It then ignores a resource that no current
// node provides, because an autoscaler may still add the first node that provides it.
func (g *Gang) tooLarge(shapes []corev1.ResourceList) string {
	if len(shapes) == 0 {
		switch n := g.Never; {
		case n == nil || n.Level != "":
		case n.Resource == "":
			return fmt.Sprintf("no host has all that one of its pods requests: %s; name larger nodes that can be added in --node-shapes", g)
		case n.Have > 0:
			return fmt.Sprintf("no host has %s %s: the largest has %s; name larger nodes that can be added in --node-shapes",
				placement.Amount(n.Resource, n.Need), n.Resource, placement.Amount(n.Resource, n.Have))
		}
		return ""
	}
	for i := range g.Sets {
		if !slices.ContainsFunc(shapes, func(shape corev1.ResourceList) bool { return holds(shape, g.Sets[i].Need) }) {
			one := g.Sets[i]
			one.Count = 1
			return fmt.Sprintf("no node of --node-shapes holds %s", one.String())
		}
	}
	return ""
}

// holds reports whether a node of this shape has the resources that a pod requests. A resource that the shape does not name is assumed to
// suffice if its name has no prefix (cpu, memory, storage).
func holds(shape, need corev1.ResourceList) bool {
	for _, name := range slices.Sorted(maps.Keys(need)) {
		quantity := need[name]
		has, named := shape[name]
		if !named && !strings.Contains(string(name), "/") {
			continue
		}
		if has.Cmp(quantity) < 0 {
			return false
		}
	}
	return true
}

// quantityOf returns an amount as an API quantity.
func quantityOf(r topology.Request) resource.Quantity {
	switch {
	case r.Name == string(corev1.ResourceCPU):
		return *resource.NewMilliQuantity(r.Amount, resource.DecimalSI)
	case strings.Contains(r.Name, "/"):
		return *resource.NewQuantity(r.Amount, resource.DecimalSI)
	}
	return *resource.NewQuantity(r.Amount, resource.BinarySI)
}
