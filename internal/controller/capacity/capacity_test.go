// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
)

// served answers what an API server serves.
type served struct {
	discovery.ServerResourcesInterface
	resources []string
	err       error
}

func (s served) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range s.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, s.err
}

// answer is the same to every list.
type answer struct {
	client.Reader
	err error
}

func (a answer) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.err }

func TestProbe(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "provisioningrequests"}, "", errors.New("no"))
	ours := served{resources: []string{"provisioningrequests"}}
	for name, tc := range map[string]struct {
		served served
		live   answer
		fails  bool
		reason string
	}{
		"served":              {served: ours},
		"others are":          {served: served{resources: []string{"capacitybuffers"}}, reason: reasonNotServed},
		"the version is not":  {served: served{err: apierrors.NewNotFound(schema.GroupResource{}, "v1")}, reason: reasonNotServed},
		"it cannot be asked":  {served: served{err: errors.New("no route")}, fails: true},
		"no rights":           {served: ours, live: answer{err: forbidden}, reason: reasonNotReadable},
		"they are not listed": {served: ours, live: answer{err: errors.New("no route")}, fails: true},
	} {
		state, err := Autoscaler(addon.Cluster{Served: tc.served, Live: tc.live, Namespaces: []string{"ns"}}).Probe(t.Context())
		if (err != nil) != tc.fails || state.Ready != (!tc.fails && tc.reason == "") || !state.Ready && !tc.fails && state.Reason != tc.reason {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
		if tc.reason != "" && !strings.Contains(state.Message, "install") {
			t.Errorf("%s: the message names no fix: %s", name, state.Message)
		}
	}
}

// Of a cluster's ProvisioningRequests only those of deployments are watched.
func TestWatches(t *testing.T) {
	watch := Autoscaler(addon.Cluster{}).Watches()[0]
	for name, tc := range map[string]struct {
		labels  map[string]string
		owner   metav1.OwnerReference
		watched bool
		of      string
	}{
		"of a deployment":       {map[string]string{capacity.LabelAsk: "x", capacity.LabelGraphUID: "u"}, metav1.OwnerReference{Kind: "DynamoGraphDeployment", Name: "g", UID: "u"}, true, "ns/g"},
		"of an earlier one":     {map[string]string{capacity.LabelAsk: "x", capacity.LabelGraphUID: "u"}, metav1.OwnerReference{Kind: "DynamoGraphDeployment", Name: "g", UID: "v"}, true, ""},
		"labelled by a user":    {map[string]string{capacity.LabelAsk: "x"}, metav1.OwnerReference{Kind: "Job", Name: "g", UID: "u"}, false, ""},
		"of another owner":      {nil, metav1.OwnerReference{Kind: "Job", Name: "g", UID: "u"}, false, ""},
		"without a graph's UID": {map[string]string{capacity.LabelAsk: "x"}, metav1.OwnerReference{Kind: "DynamoGraphDeployment", Name: "g", UID: "u"}, false, ""},
	} {
		o := &unstructured.Unstructured{}
		o.SetNamespace("ns")
		o.SetLabels(tc.labels)
		o.SetOwnerReferences([]metav1.OwnerReference{tc.owner})
		graph, ok := watch.Graph(o)
		of := ""
		if ok {
			of = graph.String()
		}
		if watched := watch.Label.Matches(labels.Set(tc.labels)); watched != tc.watched || of != tc.of {
			t.Errorf("%s: watched %v, of %q", name, watched, of)
		}
	}
}

// Before a gang is released the placeholders of its deployment are deleted, and those on its hosts, whoever they are for. No other pod is.
func TestClear(t *testing.T) {
	pod := func(namespace, name, graph, node string, priority int32) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{capacity.LabelAsk: "x", capacity.LabelGraphUID: graph}},
			Spec:       corev1.PodSpec{NodeName: node, Priority: ptr.To(priority)},
		}
	}
	c := fake.NewClientBuilder().WithObjects(
		pod("own", "unbound", "u", "", capacity.Priority), pod("own", "elsewhere", "u", "h2", capacity.Priority), pod("own", "on-the-host", "v", "h1", capacity.Priority),
		pod("own", "of-another", "v", "h2", capacity.Priority), pod("team", "of-a-user", "u", "h1", capacity.Priority), pod("own", "important", "u", "h1", 0),
	).Build()
	(&Reconciler{Client: c, Namespace: "own"}).Clear(t.Context(), "u", []string{"h0", "h1"})
	left := &corev1.PodList{}
	if err := c.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range left.Items {
		names = append(names, left.Items[i].Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"important", "of-a-user", "of-another"}, names); diff != "" {
		t.Errorf("left are (-want +got):\n%s", diff)
	}
}
