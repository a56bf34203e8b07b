// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"errors"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// refusing answers every create with an error.
type refusing struct {
	client.Client
	err error
}

func (r refusing) Create(context.Context, client.Object, ...client.CreateOption) error { return r.err }

// noHosts exclude none.
type noHosts struct{}

func (noHosts) HostsFor(*topology.Shape, int) []string { return nil }

func failed(t *testing.T, reason string) float64 {
	t.Helper()
	m := dto.Metric{}
	if err := requestsFailed.WithLabelValues(reason).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestFailuresAreCounted: a request that ends without capacity, one that the API server refuses, and a gang of which none is made; the last
// one once for each cause.
func TestFailuresAreCounted(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name, dgd.UID = "g", "u"
	g := &capacity.Gang{UID: dgd.UID, Name: "Worker-0", Kind: capacity.KindPlaceholders}
	all := deployments{dgd.UID: dgd}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("exceeded quota"))
	r := &Reconciler{Client: refusing{err: forbidden}, Results: oneResult{}, Hosts: noHosts{}, Recorder: events.NewFakeRecorder(100)}
	before := map[string]float64{}
	for _, reason := range []string{EventNotRequested, EventGivenUp, EventRefused} {
		before[reason] = failed(t, reason)
	}
	note := func(why string) []capacity.Note { return []capacity.Note{{Gang: g, Why: why}} }
	r.report(capacity.Steps{Refused: note("claims")}, all)
	r.report(capacity.Steps{Refused: note("claims")}, all)
	r.report(capacity.Steps{Refused: note("too many pods"), GivenUp: note("no nodes")}, all)
	steps := capacity.Steps{Create: []capacity.Ask{{Gang: g, Fresh: true, Missing: []capacity.Index{{}}}}}
	g.Sets = []capacity.Set{{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}}}
	if err := r.create(t.Context(), steps, all); err == nil {
		t.Error("a refused request is no error")
	}
	for reason, want := range map[string]float64{EventNotRequested: 2, EventGivenUp: 1, EventRefused: 1} {
		if got := failed(t, reason) - before[reason]; got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}
