// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package specs describes the properties of providers on which admission, rendering and the setup of the operator depend. To add a
// provider, add a package below internal/provider, its Spec to All, and a line where the operator constructs it; a test compares All with
// the constructed providers.
package specs

import "slices"

// Auto is a value of the flag --provider and of the annotation trellis.dev/provider. With this value, Trellis chooses the provider from the
// deployment.
const Auto = "auto"

// Spec describes one provider.
type Spec struct {
	// Name is the value of the flag --provider and of the annotation trellis.dev/provider. ScalingGroups store it in spec.engine.
	Name string
	// Planned: Trellis makes, gates and plans the pods. If Planned is false, the provider makes and places the pods.
	Planned bool
	// InPlace: Trellis can create a gang's pods directly in their places if the places are known. This requires that the provider needs no
	// objects before the pods are created, and adds nothing to new pods.
	InPlace bool
	// TakesSets: the provider can place pods that LeaderWorkerSets make.
	TakesSets bool
	// Queued: the provider uses the queues of KAI Scheduler.
	Queued bool
	// ActsOn are the deployment annotations on which this provider acts, in addition to the annotations on which all providers act.
	ActsOn []string
	// Overrides: the provider acts on spec.providerOverride, and on minAvailable of components without a constraint.
	Overrides bool
	// FixedGangs: the size and the minAvailable of a gang are immutable once the provider has created it.
	FixedGangs bool
	// SchedulerName in a pod template chooses the provider if no other setting chooses one; "" for none.
	SchedulerName string
	// WorkloadProvider is the value of the annotation nvidia.com/workload-provider that chooses the provider; "" for none.
	WorkloadProvider string
	// RuledOutBy are deployment annotations that exclude this provider if the operator's flag names it.
	RuledOutBy []Annotation
}

// Annotation is a key and a value.
type Annotation struct{ Key, Value string }

// All lists the providers, in the order in which messages list them. The first provider is the default.
var All = []Spec{Gates, PodGroup, KAI, Grove}

// Named returns the provider with this name. For an unknown name, which another version of Trellis may have written, it returns a provider
// without any features.
func Named(name string) Spec {
	if i := slices.IndexFunc(All, func(s Spec) bool { return s.Name == name }); i >= 0 {
		return All[i]
	}
	return Spec{Name: name}
}

// Names returns the accepted values of the flag --provider and of the annotation trellis.dev/provider.
func Names() []string { return append([]string{Auto}, named(func(Spec) bool { return true })...) }

// TakingSets returns the names of the providers that place the pods of LeaderWorkerSets.
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
