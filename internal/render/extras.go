// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// LabelManagedBy marks the objects that Trellis makes, except scaling groups, pods and the Services of components. Of common kinds, such as
// ServiceAccounts, the cache contains only objects with this label.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "trellis"
)

// FieldOwner is the field manager of all writes of the operator.
const FieldOwner = "trellis"

// Object is a Kubernetes object of any kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// extras are a graph's objects other than scaling groups, pods and Services. They are rendered directly from the deployment.
type extras struct {
	owned  []Object
	shared []Object
	claims Claims
	// ssh: the pods of at least one component start over ssh and need the namespace's key pair.
	ssh bool
}

// Owned returns the objects that belong to this graph alone and change with its spec: ServiceAccounts and their rights, ingresses,
// ComputeDomains, and the endpoint picker's configuration and pool. The caller sets owner references.
func (g *Graph) Owned() []Object { return g.extras.owned }

// Shared returns the objects with fixed names that several graphs of a namespace share. They are deleted together with the last graph that
// uses them.
func (g *Graph) Shared() []Object { return g.extras.shared }

// Claims returns the volume claims that the graph creates, and the claims that must already exist.
func (g *Graph) Claims() Claims { return g.extras.claims }

// NeedsSSHKeys reports whether pods of the graph log in to each other over ssh. These pods mount the Secret framework.SSHSecret.
func (g *Graph) NeedsSSHKeys() bool { return g.extras.ssh }

// addExtras adds the extras to a graph after its components are resolved.
func (g *Graph) addExtras(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha *nvidiav1alpha1.AlphaOnly) []error {
	var errs []error
	g.extras.owned = append(g.extras.owned, discoveryAccess(g)...)
	g.extras.shared = append(g.extras.shared, componentAccess(g)...)
	for i := range g.Components {
		component := &g.Components[i]
		spec := dgd.Component(component.Name)
		g.extras.owned = append(g.extras.owned, g.ingress(component, alpha.Services[component.Name].Ingress)...)
		picker, err := g.endpointPicker(dgd, component, spec)
		if err != nil {
			errs = append(errs, err)
		}
		g.extras.owned = append(g.extras.owned, picker...)
		g.extras.ssh = g.extras.ssh || mountsSSHKeys(component)
	}
	g.extras.shared = append(g.extras.shared, g.modelServices(dgd)...)
	g.extras.owned = append(g.extras.owned, g.computeDomains()...)
	g.extras.claims = g.claimsOf(dgd, alpha.PVCs)
	return errs
}

// componentMeta returns the metadata for an object of one component.
func (g *Graph) componentMeta(s *Component, name string) metav1.ObjectMeta {
	meta := g.meta(s, name)
	meta.Labels[LabelManagedBy] = ManagedBy
	return meta
}

// graphMeta returns the metadata for an object of the entire graph.
func (g *Graph) graphMeta(name string) metav1.ObjectMeta {
	labels := map[string]string{LabelGraph: LabelValue(g.Name), LabelManagedBy: ManagedBy}
	return metav1.ObjectMeta{Name: name, Namespace: g.Namespace, Labels: labels}
}

// sharedMeta returns the metadata for an object that several graphs share.
func (g *Graph) sharedMeta(name string, more map[string]string) metav1.ObjectMeta {
	labels := map[string]string{LabelManagedBy: ManagedBy}
	maps.Copy(labels, more)
	return metav1.ObjectMeta{Name: name, Namespace: g.Namespace, Labels: labels}
}
