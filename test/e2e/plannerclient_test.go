// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// plannersAccount is the ServiceAccount that Trellis makes for the planners of a namespace.
const plannersAccount = "planner-serviceaccount"

var (
	plannedGraphs   = nvidiav1beta1.GroupVersion.WithResource("dynamographdeployments")
	plannedAdapters = nvidiav1beta1.GroupVersion.WithResource("dynamographdeploymentscalingadapters")
	workerMetadata  = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamoworkermetadatas"}
	plannedPods     = corev1.SchemeGroupVersion.WithResource("pods")
)

// planner sends the requests of the Dynamo planner, and no others. It knows a deployment and the names of its components.
type planner struct {
	*world
	dgd string
	api dynamic.Interface
}

// planner of a deployment. Without a configuration it has the rights of an administrator.
func (w *world) planner(dgd string, config *rest.Config) *planner {
	w.t.Helper()
	if config == nil {
		config = w.adminConfig()
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return &planner{world: w, dgd: dgd, api: api}
}

func (w *world) adminConfig() *rest.Config {
	w.t.Helper()
	config, err := w.cluster.RESTConfig()
	if err != nil {
		w.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// accountConfig is the configuration of a program in a pod of the account: the token is all it has.
func (w *world) accountConfig(account string) *rest.Config {
	w.t.Helper()
	token := &authenticationv1.TokenRequest{}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: account}}
	w.until("account "+account+" gives a token", func() error { return w.c.SubResource("token").Create(w.t.Context(), sa, token) })
	config := rest.AnonymousClientConfig(w.adminConfig())
	config.QPS = -1
	config.BearerToken = token.Status.Token
	return config
}

func (p *planner) graphs() dynamic.ResourceInterface {
	return p.api.Resource(plannedGraphs).Namespace(p.name)
}

func (p *planner) get() *nvidiav1beta1.DynamoGraphDeployment {
	p.t.Helper()
	o, err := p.graphs().Get(p.t.Context(), p.dgd, metav1.GetOptions{})
	if err != nil {
		p.t.Fatalf("getting %s: %v", p.dgd, err)
	}
	return read[nvidiav1beta1.DynamoGraphDeployment](p.t, o)
}

// list finds the deployment among those of the namespace.
func (p *planner) list() *nvidiav1beta1.DynamoGraphDeployment {
	p.t.Helper()
	all, err := p.graphs().List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatalf("listing deployments: %v", err)
	}
	i := slices.IndexFunc(all.Items, func(o unstructured.Unstructured) bool { return o.GetName() == p.dgd })
	if i < 0 {
		p.t.Fatalf("%s is not among %d deployments", p.dgd, len(all.Items))
	}
	return read[nvidiav1beta1.DynamoGraphDeployment](p.t, &all.Items[i])
}

func read[T any](t testing.TB, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// scale patches the scale of the component's adapter, and the deployment where there is no adapter.
func (p *planner) scale(component string, replicas int) (fellBack bool) {
	p.t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	name := p.dgd + "-" + strings.ToLower(component)
	_, err := p.api.Resource(plannedAdapters).Namespace(p.name).Patch(p.t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		p.scaleByIndex(component, replicas)
		return true
	}
	if err != nil {
		p.t.Fatalf("scaling %s by its adapter: %v", component, err)
	}
	return false
}

// scaleByIndex patches the entry of the component in the deployment, at the index at which it was read.
func (p *planner) scaleByIndex(component string, replicas int) {
	p.t.Helper()
	i := slices.IndexFunc(p.get().Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool { return c.Name == component })
	if err := p.patchAt(i, component, replicas); err != nil {
		p.t.Fatalf("scaling %s by its deployment: %v", component, err)
	}
}

func (p *planner) patchAt(i int, component string, replicas int) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": fmt.Sprintf("/spec/components/%d/name", i), "value": component},
		{"op": "add", "path": fmt.Sprintf("/spec/components/%d/replicas", i), "value": replicas},
	})
	if err != nil {
		return err
	}
	_, err = p.graphs().Patch(p.t.Context(), p.dgd, types.JSONPatchType, body, metav1.PatchOptions{})
	return err
}

// stable waits until the component serves with so many replicas and nothing is on its way, as the planner decides it.
func (p *planner) stable(component string, replicas int32) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s is stable with %d", component, replicas), func() error { return p.unstable(p.get(), component, replicas) })
}

// unstable describes what a planner waits for.
func (p *planner) unstable(dgd *nvidiav1beta1.DynamoGraphDeployment, component string, replicas int32) error {
	p.t.Helper()
	if u := dgd.Status.RollingUpdate; u != nil {
		switch u.Phase {
		case nvidiav1beta1.RollingUpdateFailed:
			p.t.Fatalf("the update of %s failed", p.dgd)
		case nvidiav1beta1.RollingUpdatePending, nvidiav1beta1.RollingUpdateInProgress:
			return fmt.Errorf("the update is %s", u.Phase)
		}
	}
	if dgd.Status.ObservedGeneration < dgd.Generation {
		return fmt.Errorf("generation %d is not observed, %d is", dgd.Generation, dgd.Status.ObservedGeneration)
	}
	spec, status := dgd.Component(component), dgd.Status.Components[component]
	serving := cmp.Or(status.AvailableReplicas, status.ReadyReplicas)
	ready := meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1beta1.ConditionReady)
	if !ready || spec == nil || spec.Replicas == nil || serving == nil || *spec.Replicas != replicas || *serving != replicas || status.UpdatedReplicas != replicas {
		return fmt.Errorf("Ready %v, component %+v, status %+v", ready, spec, status)
	}
	return nil
}

// podsOf a component, found by the two labels that planners select by.
func (p *planner) podsOf(component string) []unstructured.Unstructured {
	p.t.Helper()
	selector := "nvidia.com/dynamo-graph-deployment-name=" + p.dgd + ",nvidia.com/dynamo-component=" + component
	pods, err := p.api.Resource(plannedPods).Namespace(p.name).List(p.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		p.t.Fatalf("listing the pods of %s: %v", component, err)
	}
	return slices.DeleteFunc(pods.Items, func(o unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
}
