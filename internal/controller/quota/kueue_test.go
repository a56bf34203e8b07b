// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// served answers what an API server serves, and counts how often it is asked.
type served struct {
	discovery.ServerResourcesInterface
	resources []string
	err       error
	asked     *int
}

func (s served) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if s.asked != nil {
		*s.asked++
	}
	if s.err != nil {
		return nil, s.err
	}
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range s.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func TestProbe(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "workloads"}, "", errors.New("no"))
	for name, tc := range map[string]struct {
		served served
		live   answer
		ready  bool
		fails  bool
		reason string
	}{
		"Workloads are served":    {served: served{resources: []string{"clusterqueues", "workloads"}}, ready: true},
		"others of its kinds are": {served: served{resources: []string{"clusterqueues"}}, reason: nvidiav1beta1.ReasonKueueNotInstalled},
		"the version is not":      {served: served{err: apierrors.NewNotFound(schema.GroupResource{}, "v1beta2")}, reason: nvidiav1beta1.ReasonKueueNotInstalled},
		"it cannot be asked":      {served: served{err: errors.New("no route")}, fails: true},
		"the operator has no rights": {served: served{resources: []string{"workloads"}}, live: answer{err: forbidden},
			reason: nvidiav1beta1.ReasonKueueNotReadable},
		"they cannot be listed": {served: served{resources: []string{"workloads"}}, live: answer{err: errors.New("no route")}, fails: true},
	} {
		state, err := Kueue(addon.Cluster{Served: tc.served, Live: tc.live, Namespaces: []string{"ns"}}).Probe(t.Context())
		if (err != nil) != tc.fails || state.Ready != tc.ready {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
		if !tc.ready && !tc.fails && (state.Reason != tc.reason || !strings.Contains(state.Message, "install")) {
			t.Errorf("%s: %+v", name, state)
		}
	}
}

// answer is the same to every list.
type answer struct {
	client.Reader
	err error
}

func (a answer) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.err }

// Of a cluster's Workloads only those of deployments are watched.
func TestWatches(t *testing.T) {
	watch := Kueue(addon.Cluster{}).Watches()[0]
	object := func(label, owner, uid string) client.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(quota.WorkloadKind)
		o.SetNamespace("ns")
		o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "p"}, {Kind: owner, Name: "g", UID: types.UID(uid)}})
		if label != "" {
			o.SetLabels(map[string]string{quota.LabelGraphUID: label})
		}
		return o
	}
	for name, tc := range map[string]struct {
		object  client.Object
		watched bool
		of      string
	}{
		"of a deployment":        {object("u", "DynamoGraphDeployment", "u"), true, "ns/g"},
		"of a job":               {object("", "Job", "u"), false, ""},
		"of an earlier one":      {object("u", "DynamoGraphDeployment", "v"), true, ""},
		"labelled by a stranger": {object("u", "Job", "u"), true, ""},
	} {
		if got := watch.Label.Matches(labels.Set(tc.object.GetLabels())); got != tc.watched {
			t.Errorf("%s: watched %v", name, got)
		}
		of := ""
		if graph, ok := watch.Graph(tc.object); ok {
			of = graph.String()
		}
		if of != tc.of {
			t.Errorf("%s: of %q, want %q", name, of, tc.of)
		}
	}
}

// inState is a registry of providers in one state.
type inState struct {
	state provider.State
	own   client.Reader
}

func (r inState) State(context.Context, string) provider.State { return r.state }
func (r inState) Own(string) client.Reader                     { return r.own }
func (r inState) Changes() <-chan event.GenericEvent           { return nil }

func TestReader(t *testing.T) {
	reader := fake.NewClientBuilder().Build()
	for name, tc := range map[string]struct {
		registry inState
		reason   string
	}{
		"not installed":       {inState{state: provider.State{Reason: nvidiav1beta1.ReasonKueueNotInstalled}, own: reader}, nvidiav1beta1.ReasonKueueNotInstalled},
		"not read yet":        {inState{state: provider.Ready()}, nvidiav1beta1.ReasonKueueNotReadable},
		"installed, and read": {inState{state: provider.Ready(), own: reader}, ""},
	} {
		got, why := Reader(t.Context(), tc.registry)
		if (got != nil) != (tc.reason == "") || why.Reason != tc.reason || why.Reserved {
			t.Errorf("%s: %v, %+v", name, got, why)
		}
	}
}

// A deployment in no queue has nothing asked about Kueue.
func TestNothingIsAskedWithoutAQueue(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := nvidiav1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	asked := 0
	providers := provider.New(provider.Options{}, provider.All{Others: []provider.Provider{Kueue(addon.Cluster{Served: served{asked: &asked}, Live: answer{}})}})
	for labels, want := range map[string]int{"": 0, "q": 1} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
		if labels != "" {
			dgd.Labels = map[string]string{render.LabelKueueQueue: labels}
		}
		r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(dgd).Build(), Providers: providers}
		asked = 0
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(dgd)}); err != nil {
			t.Fatal(err)
		}
		if asked != want {
			t.Errorf("queue %q: asked %d times, want %d", labels, asked, want)
		}
	}
}

// Users see that a Workload is refused. What only failed to arrive is not announced.
func TestRefusedWorkload(t *testing.T) {
	workloads := schema.GroupKind{Group: quota.WorkloadKind.Group, Kind: quota.WorkloadKind.Kind}
	for name, tc := range map[string]struct {
		err    error
		events int
	}{
		"by its schema":   {apierrors.NewInvalid(workloads, "w", nil), 1},
		"by a right":      {apierrors.NewForbidden(schema.GroupResource{Resource: "workloads"}, "w", errors.New("no")), 1},
		"by a webhook":    {apierrors.NewInternalError(errors.New("failed calling webhook")), 1},
		"it exists":       {apierrors.NewAlreadyExists(schema.GroupResource{Resource: "workloads"}, "w"), 0},
		"the answer lost": {errors.New("connection reset"), 0},
	} {
		recorder := events.NewFakeRecorder(2)
		r := &Reconciler{Recorder: recorder, Client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
		})}
		err := r.apply(t.Context(), &nvidiav1beta1.DynamoGraphDeployment{}, quota.Steps{Create: []*quota.Workload{{ObjectMeta: metav1.ObjectMeta{Name: "w"}}}})
		if got := len(recorder.Events); got != tc.events || (err == nil) != apierrors.IsAlreadyExists(tc.err) {
			t.Errorf("%s: %d events, %v", name, got, err)
		}
	}
}
