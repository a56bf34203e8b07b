// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of object that arguments can name.
type Kind struct {
	// Name and Group of the kind in its API, e.g. DynamoGraphDeployment and nvidia.com.
	Name, Group string
	// Short is kubectl's short name.
	Short string
}

// Kinds that arguments name.
var (
	Graph    = Kind{"DynamoGraphDeployment", "nvidia.com", "dgd"}
	Group    = Kind{"ScalingGroup", "trellis.dev", "sg"}
	Pod      = Kind{"Pod", "", "po"}
	Topology = Kind{"ClusterTopology", "grove.io", "ctopo"}
	// Binding is Grove's newer kind of topology. Commands treat a ClusterTopologyBinding like a ClusterTopology.
	Binding = Kind{"ClusterTopologyBinding", "grove.io", "ct"}
)

// plural returns the name of the kind's resource.
func (k Kind) plural() string {
	name := strings.ToLower(k.Name)
	if stem, y := strings.CutSuffix(name, "y"); y {
		return stem + "ies"
	}
	return name + "s"
}

// called reports whether kubectl accepts a word as a name of the kind: the short, singular or plural name, without the group, with the
// group, or with version and group.
func (k Kind) called(word string) bool {
	resource, rest, qualified := strings.Cut(strings.ToLower(word), ".")
	if resource != k.Short && resource != strings.ToLower(k.Name) && resource != k.plural() {
		return false
	}
	if !qualified || rest == k.Group {
		return true
	}
	_, group, versioned := strings.Cut(rest, ".")
	return versioned && k.Group != "" && group == k.Group
}

// Object reads the arguments that name one object: TYPE NAME, TYPE/NAME, or only NAME for the first of the kinds.
func Object(args []string, kinds ...Kind) (Kind, string, error) {
	word, name := kinds[0].Short, strings.Join(args, " ")
	switch len(args) {
	case 1:
		if before, after, slash := strings.Cut(args[0], "/"); slash {
			word, name = before, after
		}
	case 2:
		word, name = args[0], args[1]
	}
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.called(word) })
	switch {
	case i < 0:
		return Kind{}, "", fmt.Errorf("%s: want %s", strings.Join(args, " "), wanted(kinds))
	case name == "" || strings.ContainsAny(name, "/ "):
		return Kind{}, "", fmt.Errorf("%q: want %s/NAME; the namespace is given with -n", strings.Join(args, " "), kinds[i].Short)
	case len(args) == 1 && word == kinds[0].Short && !strings.Contains(args[0], "/") && kinds[0].called(name):
		return Kind{}, "", fmt.Errorf("%s: the name is missing: want %s NAME, or %s/%s for an object of that name", name, name, kinds[0].Short,
			name)
	}
	return kinds[i], name, nil
}

// wanted describes the arguments that name an object, e.g. "a DynamoGraphDeployment, as dgd NAME or dgd/NAME".
func wanted(kinds []Kind) string {
	parts := make([]string, 0, len(kinds))
	for _, k := range kinds {
		parts = append(parts, "a "+k.Name+", as "+k.Short+" NAME or "+k.Short+"/NAME")
	}
	return strings.Join(parts, "; or ")
}

// GraphName reads the name of a DynamoGraphDeployment.
func GraphName(args ...string) (string, error) {
	_, name, err := Object(args, Graph)
	return name, err
}

// GraphNames reads the names of DynamoGraphDeployments: TYPE NAME..., or each as TYPE/NAME or NAME.
func GraphNames(args []string) ([]string, error) {
	if len(args) > 1 && Graph.called(args[0]) {
		for i, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, fmt.Errorf("%s: after %s come names without a type", args[i+1], args[0])
			}
		}
		return args[1:], nil
	}
	names := make([]string, 0, len(args))
	for _, arg := range args {
		name, err := GraphName(arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
