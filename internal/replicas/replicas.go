// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas determines which object owns the number of replicas of a component. At any time, the number has exactly one owner:
//
//	scalingAdapter is set    its adapter exists   owner of the number
//	no                       -                    the deployment: replicas of the component
//	yes                      not yet              the deployment: the adapter begins with its number
//	yes                      yes                  the adapter: spec.replicas
//
// An adapter's number is copied into the deployment, where all clients read it and admission can refuse it. While the two numbers differ,
// no replicas are created or deleted. They differ if another client has overwritten the deployment's number, or if the adapter's number is
// not accepted.
//
// For example, in graph g, the component decode has scalingAdapter and replicas: 2. The adapter g-decode begins with 2. The command
// "kubectl scale dgdsa/g-decode --replicas=5" sets the adapter to 5. Then the deployment's number and the pods follow. If scalingAdapter is
// later unset, the deployment keeps 5 as its own number.
package replicas

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// AdapterName returns the name of a component's adapter.
func AdapterName(dgd, component string) string { return render.AdapterName(dgd, component) }

// WithAdapter reports whether a component requests an adapter.
func WithAdapter(s *nvidiav1beta1.ComponentSpec) bool {
	return s != nil && s.ScalingAdapter != nil
}

// Of returns the number of replicas in a component's spec.
func Of(s *nvidiav1beta1.ComponentSpec) int32 {
	if s == nil || s.Replicas == nil {
		return 1
	}
	return *s.Replicas
}

// Owns reports whether the adapter owns the number of replicas of the component to which it refers.
func Owns(a *nvidiav1beta1.DynamoGraphDeploymentScalingAdapter, dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	component := a.Spec.DGDRef.ComponentName
	return a.DeletionTimestamp == nil && metav1.IsControlledBy(a, dgd) && a.Spec.DGDRef.Name == dgd.Name &&
		WithAdapter(dgd.Component(component)) && a.Name == AdapterName(dgd.Name, component)
}

// Settled returns the deployment to act on. If the number of a component's adapter differs from the number in the deployment, the component
// keeps its current number of replicas, which "has" contains. Without an entry in "has", the deployment's number applies. The result shares
// unchanged parts with the deployment.
func Settled(dgd *nvidiav1beta1.DynamoGraphDeployment, adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter,
	has map[string]int32) *nvidiav1beta1.DynamoGraphDeployment {
	settled := dgd
	for name := range differing(dgd, adapters) {
		n, ok := has[name]
		if !ok || n == Of(dgd.Component(name)) {
			continue
		}
		settled = withReplicas(settled, name, n)
	}
	return settled
}

// Carried returns the deployment to act on if its adapters are unknown. A component with an adapter has the number of replicas that was
// copied into its scaling group. The result shares unchanged parts with the deployment.
func Carried(dgd *nvidiav1beta1.DynamoGraphDeployment,
	groups map[string]*trellisv1alpha1.ScalingGroup) *nvidiav1beta1.DynamoGraphDeployment {
	carried := dgd
	for name, sg := range groups {
		if c := dgd.Component(name); WithAdapter(c) && Of(c) != sg.Spec.Replicas {
			carried = withReplicas(carried, name, sg.Spec.Replicas)
		}
	}
	return carried
}

// withReplicas returns the deployment with n replicas of a component. The result shares unchanged parts with the original.
func withReplicas(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32) *nvidiav1beta1.DynamoGraphDeployment {
	out := *dgd
	out.Spec.Components = slices.Clone(dgd.Spec.Components)
	out.Component(name).Replicas = &n
	return &out
}

// grows returns 1 for a component that gets more replicas, otherwise 0.
func grows(dgd *nvidiav1beta1.DynamoGraphDeployment, numbers map[string]int32, name string) int {
	if numbers[name] > Of(dgd.Component(name)) {
		return 1
	}
	return 0
}

// differing returns the adapters' numbers that differ from the deployment's numbers, by component.
func differing(dgd *nvidiav1beta1.DynamoGraphDeployment, adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter) map[string]int32 {
	numbers := map[string]int32{}
	for i := range adapters {
		a := &adapters[i]
		if name := a.Spec.DGDRef.ComponentName; Owns(a, dgd) && Of(dgd.Component(name)) != a.Spec.Replicas {
			numbers[name] = a.Spec.Replicas
		}
	}
	return numbers
}
