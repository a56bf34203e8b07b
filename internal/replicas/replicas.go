// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas decides who describes how many replicas a component has. There is exactly one such owner at any time:
//
//	scalingAdapter is set    its adapter exists   owner of the number
//	no                       -                    the deployment: replicas of the component
//	yes                      not yet              the deployment: the adapter begins with its number
//	yes                      yes                  the adapter: spec.replicas
//
// An adapter's number is carried into the deployment, where everybody reads it and where admission may have a say. While the two differ
// nothing is made or deleted: either the deployment was overwritten behind the adapter's back, or the adapter's number is not accepted.
//
// For example g with decode enabled and replicas: 2. The adapter g-decode begins with 2. kubectl scale dgdsa/g-decode --replicas=5
// makes it 5, then the deployment's number, then the pods. The adapter is switched off: the deployment continues with its 5, which are
// its own now.
package replicas

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// AdapterName is the name of the adapter of a component.
func AdapterName(dgd, component string) string { return render.AdapterName(dgd, component) }

// WithAdapter reports whether a component asks for an adapter.
func WithAdapter(s *nvidiav1beta1.ComponentSpec) bool {
	return s != nil && s.ScalingAdapter != nil
}

// Of is the number of replicas in a service's spec.
func Of(s *nvidiav1beta1.ComponentSpec) int32 {
	if s == nil || s.Replicas == nil {
		return 1
	}
	return *s.Replicas
}

// Owns reports whether the adapter is the owner of the number of replicas of the component it names.
func Owns(a *nvidiav1beta1.DynamoGraphDeploymentScalingAdapter, dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	component := a.Spec.DGDRef.ComponentName
	return a.DeletionTimestamp == nil && metav1.IsControlledBy(a, dgd) && a.Spec.DGDRef.Name == dgd.Name &&
		WithAdapter(dgd.Component(component)) && a.Name == AdapterName(dgd.Name, component)
}

// Settled is the deployment as it may be acted on: a component whose adapter says another number than the deployment keeps the replicas
// it has, if it has been given any. What does not differ is shared with the deployment.
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

// Carried is the deployment as it is acted on when its adapters are not known: the number of replicas of a component that an adapter owns
// is the one that was carried into its scaling group. What does not differ is shared with the deployment.
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

// withReplicas is the deployment with another number of replicas of a component. What does not differ is shared.
func withReplicas(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32) *nvidiav1beta1.DynamoGraphDeployment {
	out := *dgd
	out.Spec.Components = slices.Clone(dgd.Spec.Components)
	out.Component(name).Replicas = &n
	return &out
}

// grows is 1 for a component that gets more replicas and 0 for one that gets fewer.
func grows(dgd *nvidiav1beta1.DynamoGraphDeployment, numbers map[string]int32, name string) int {
	if numbers[name] > Of(dgd.Component(name)) {
		return 1
	}
	return 0
}

// differing returns the numbers of adapters that say another one than the deployment, by component.
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
