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

// LabelManagedBy marks what Trellis makes other than groups, pods and Services, so that it need not look at other people's objects of such
// common kinds.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "trellis"
)

// FieldOwner is the field manager of all that the operator writes and owns.
const FieldOwner = "trellis"

// Object is a Kubernetes object of any kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// extras are a graph's objects other than groups, pods and Services. They are made from the deployment itself.
type extras struct {
	owned  []Object
	shared []Object
	claims Claims
	// ssh: some replica starts over ssh and needs the namespace's key pair.
	ssh bool
}

// Owned returns the objects that belong to this graph alone and follow its spec: accounts and rights, ingresses, the endpoint picker's
// configuration and pool. Owner references are the caller's.
func (g *Graph) Owned() []Object { return g.extras.owned }

// Shared returns the objects whose well-known names several graphs of a namespace use together. They go with the last of them.
func (g *Graph) Shared() []Object { return g.extras.shared }

// Claims returns which volume claims the graph brings and which it presupposes.
func (g *Graph) Claims() Claims { return g.extras.claims }

// NeedsSSHKeys reports whether pods of the graph log in to each other and so mount the Secret framework.SSHSecret.
func (g *Graph) NeedsSSHKeys() bool { return g.extras.ssh }

// addExtras completes a graph whose components are resolved.
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

// componentMeta names an object of one component.
func (g *Graph) componentMeta(s *Component, name string) metav1.ObjectMeta {
	meta := g.meta(s, name)
	meta.Labels[LabelManagedBy] = ManagedBy
	return meta
}

// graphMeta names an object of the entire graph.
func (g *Graph) graphMeta(name string) metav1.ObjectMeta {
	labels := map[string]string{LabelGraph: LabelValue(g.Name), LabelManagedBy: ManagedBy}
	return metav1.ObjectMeta{Name: name, Namespace: g.Namespace, Labels: labels}
}

// sharedMeta names an object that no graph has for itself.
func (g *Graph) sharedMeta(name string, more map[string]string) metav1.ObjectMeta {
	labels := map[string]string{LabelManagedBy: ManagedBy}
	maps.Copy(labels, more)
	return metav1.ObjectMeta{Name: name, Namespace: g.Namespace, Labels: labels}
}
