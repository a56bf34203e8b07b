// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalingadapter

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

type (
	deployment = nvidiav1beta1.DynamoGraphDeployment
	adapter    = nvidiav1beta1.DynamoGraphDeploymentScalingAdapter
)

// steps are the adapters to create, adopt and delete in one reconcile.
type steps struct {
	create []*adapter
	// adopt are adapters with the right name and component that a user created: the deployment becomes their owner.
	adopt  []*adapter
	delete []*adapter
	// leftovers are adapters of an earlier deployment with this name.
	leftovers []*adapter
}

// plan compares the adapters that name the deployment with the adapters that the deployment requests. It ignores adapters of other owners.
// An adapter of an earlier deployment with this name must be deleted before its successor is created.
func plan(dgd *deployment, adapters []adapter) steps {
	var s steps
	there := map[string]bool{}
	for i := range adapters {
		a := &adapters[i]
		component := a.Spec.DGDRef.ComponentName
		named := a.Name == replicas.AdapterName(dgd.Name, component)
		there[a.Name] = true
		switch {
		case a.DeletionTimestamp != nil:
		case metav1.IsControlledBy(a, dgd):
			if !named || !replicas.WithAdapter(dgd.Component(component)) {
				s.delete = append(s.delete, a)
			}
		case leftovers.Of(a, "DynamoGraphDeployment", dgd.Name, dgd.UID):
			s.leftovers = append(s.leftovers, a)
		case named && replicas.WithAdapter(dgd.Component(component)) && metav1.GetControllerOf(a) == nil:
			s.adopt = append(s.adopt, a)
		}
	}
	for _, c := range render.Components(dgd) {
		if replicas.WithAdapter(c) && !there[replicas.AdapterName(dgd.Name, c.Name)] {
			s.create = append(s.create, newAdapter(dgd, c.Name, replicas.Of(c)))
		}
	}
	return s
}

// newAdapter returns an adapter with the deployment's number of replicas.
func newAdapter(dgd *deployment, component string, n int32) *adapter {
	return &adapter{
		TypeMeta: metav1.TypeMeta{APIVersion: nvidiav1beta1.GroupVersion.String(), Kind: "DynamoGraphDeploymentScalingAdapter"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: dgd.Namespace, Name: replicas.AdapterName(dgd.Name, component),
			Labels: map[string]string{
				render.LabelGraph: render.LabelValue(dgd.Name), render.LabelComponent: render.LabelValue(component),
			},
			OwnerReferences: []metav1.OwnerReference{ownerReference(dgd)},
		},
		Spec: nvidiav1beta1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: n, DGDRef: nvidiav1beta1.ScaledComponent{Name: dgd.Name, ComponentName: component},
		},
	}
}

func ownerReference(dgd *deployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))
}

// whyIdle returns the reason why an adapter's replicas do not apply to the component that the adapter names.
func whyIdle(dgd *deployment, a *adapter) string {
	ref := a.Spec.DGDRef
	if dgd == nil {
		return fmt.Sprintf("there is no DynamoGraphDeployment %q in this namespace", ref.Name)
	}
	spec := dgd.Component(ref.ComponentName)
	switch owner := metav1.GetControllerOf(a); {
	case spec == nil:
		return fmt.Sprintf("DynamoGraphDeployment %q has no component %q", ref.Name, ref.ComponentName)
	case !replicas.WithAdapter(spec):
		return fmt.Sprintf("%s of DynamoGraphDeployment %q is not set", field.Component(-1, ref.ComponentName).Child("scalingAdapter"), ref.Name)
	case a.Name != replicas.AdapterName(dgd.Name, ref.ComponentName):
		return fmt.Sprintf("the component follows adapter %q, which Trellis creates; delete this one", replicas.AdapterName(dgd.Name,
			ref.ComponentName))
	case owner != nil && owner.UID != dgd.UID:
		return fmt.Sprintf("it belongs to %s %q (UID %s), not to the current DynamoGraphDeployment", owner.Kind, owner.Name, owner.UID)
	}
	return "it is being taken over"
}
