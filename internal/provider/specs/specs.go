// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package specs describes the providers: what admission, rendering and the wiring have to know of each by its name. A new provider is a
// package below internal/provider, its Spec here, and a line where the operator constructs it; a test compares the two lists.
package specs

import "slices"

// Auto is the value of the flag --provider and of the annotation that leaves the choice to the deployment.
const Auto = "auto"

// Spec describes one provider.
type Spec struct {
	// Name is the value of the flag and of the annotation, and is stored in ScalingGroups.
	Name string
	// Planned: Trellis makes the pods, gates them, and plans where they go. Otherwise the provider makes and places them.
	Planned bool
	// InPlace: a gang whose place is known is created there. The provider forms nothing before that, and adds nothing to new pods.
	InPlace bool
	// TakesSets: pods that LeaderWorkerSets make can be placed.
	TakesSets bool
	// Queued: the queues of KAI Scheduler are acted on.
	Queued bool
	// ActsOn are the annotations of a deployment, beyond those of every provider, that are acted on.
	ActsOn []string
	// Overrides: spec.providerOverride is acted on, and minAvailable of components without a constraint.
	Overrides bool
	// FixedGangs: the size of a gang and how many are needed at least cannot be changed once the provider has made them.
	FixedGangs bool
	// SchedulerName in a pod template chooses the provider, when nothing else does; "" for none.
	SchedulerName string
	// WorkloadProvider is the value of the annotation nvidia.com/workload-provider that chooses the provider; "" for none.
	WorkloadProvider string
	// RuledOutBy are annotations, with their values, that keep the operator's flag from choosing the provider.
	RuledOutBy []Annotation
}

// Annotation is a key and a value.
type Annotation struct{ Key, Value string }

// All are the providers, in the order in which messages list them. The first is the default.
var All = []Spec{Gates, PodGroup, KAI, Grove}

// Named returns the provider of that name. An unknown name is a provider that does nothing: an object may have been written by another
// version.
func Named(name string) Spec {
	if i := slices.IndexFunc(All, func(s Spec) bool { return s.Name == name }); i >= 0 {
		return All[i]
	}
	return Spec{Name: name}
}

// Names are the accepted values of the flag and of the annotation.
func Names() []string { return append([]string{Auto}, named(func(Spec) bool { return true })...) }

// TakingSets are the names of those that place the pods of LeaderWorkerSets.
func TakingSets() []string { return named(func(s Spec) bool { return s.TakesSets }) }

func named(is func(Spec) bool) []string {
	var names []string
	for _, s := range All {
		if is(s) {
			names = append(names, s.Name)
		}
	}
	return names
}
