// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// orphan deletes the group and plays the garbage collector for --cascade=orphan.
func (s *server) orphan() {
	s.t.Helper()
	s.must(s.c.Delete(s.t.Context(), s.group()))
	for _, pod := range s.pods() {
		bare := pod.DeepCopy()
		bare.OwnerReferences = nil
		s.must(s.c.Patch(s.t.Context(), bare, client.MergeFrom(&pod)))
	}
}

// uids are the pods' names and UIDs.
func (s *server) uids() string {
	var out []string
	for _, pod := range s.pods() {
		out = append(out, fmt.Sprintf("%s=%s", pod.Name, pod.UID))
	}
	return strings.Join(out, " ")
}

// A group is deleted with --cascade=orphan and made again: it adopts the pods that are still there, as they run, and continues with them. A copy of one
// of them under another name, and one on its way out, are not adopted.
func TestOrphanedPodsAreAdopted(t *testing.T) {
	s := newServer(t)
	s.must(s.c.Create(t.Context(), s.startable(group(2, 2))))
	s.settle()
	for ordinal := range 2 {
		s.run(ordinal)
	}
	s.settle()
	before := s.uids()

	t.Log("the same group: its pods run on and are its own")
	s.orphan()
	copied := s.pods()[0].DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{Namespace: s.ns, Name: "a-copy", Labels: copied.Labels}
	copied.Spec.NodeName = "" // nothing runs it
	s.must(s.c.Create(t.Context(), copied))
	s.must(s.reconcile()) // there is no such group now
	s.must(s.c.Create(t.Context(), s.startable(group(2, 2))))
	s.settle()
	s.must(s.c.Get(t.Context(), client.ObjectKeyFromObject(copied), copied))
	if len(copied.OwnerReferences) > 0 {
		t.Errorf("a copy under another name was adopted: %v", copied.OwnerReferences)
	}
	s.must(s.c.Delete(t.Context(), copied, client.GracePeriodSeconds(0)))
	s.expect("the same group", "0-0:new 0-1:new 1-0:new 1-1:new | 2 there, 2 updated, 2 ready, 0 outdated")
	if got := s.uids(); got != before {
		t.Errorf("the pods are %s, want %s", got, before)
	}
	for _, pod := range s.pods() {
		if !graph.Member(&pod, s.group()) {
			t.Errorf("pod %s belongs to %v", pod.Name, pod.OwnerReferences)
		}
	}

	t.Log("another template and fewer replicas: adopted, scaled in and replaced. A pod on its way out is waited for")
	s.orphan()
	leaving := s.pods()[3]
	s.must(s.c.Delete(t.Context(), &leaving, client.GracePeriodSeconds(600)))
	newer := s.startable(group(1, 2))
	newer.Spec.Revision = "newer"
	s.must(s.c.Create(t.Context(), newer))
	s.must(s.reconcile())
	s.must(s.reconcile())
	if c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync); c != nil && c.Status != metav1.ConditionTrue {
		t.Errorf("PodsInSync = %+v", c)
	}
	s.expect("another group", "0-0:newer 0-1:newer | 1 there, 1 updated, 0 ready, 0 outdated")
}

// refusing refuses patches of pods.
type refusing struct{ client.Client }

func (r refusing) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if _, ok := o.(*corev1.Pod); ok {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("a policy refuses it"))
	}
	return r.Client.Patch(ctx, o, patch, options...)
}

// What keeps pods from being adopted is said, and no pod of their names is tried meanwhile. A group that the cache still shows, and that is gone, adopts
// nothing.
func TestOrphanedPodsAreNotAdopted(t *testing.T) {
	s := newServer(t)
	s.must(s.c.Create(t.Context(), s.startable(group(1, 1))))
	s.settle()
	s.orphan()
	s.must(s.c.Create(t.Context(), s.startable(group(1, 1))))
	admitted, counted := s.r.Client, &counting{Client: refusing{s.c}}
	s.r.Client = counted
	if err := s.reconcile(); err == nil || !strings.Contains(err.Error(), "adopting Pod g-worker-0: ") {
		t.Errorf("Reconcile says %v", err)
	}
	if c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync); c == nil || !strings.Contains(c.Message, "a policy refuses it") {
		t.Errorf("PodsInSync = %+v, want the refusal", c)
	}
	if n := counted.creates.Load(); n > 0 {
		t.Errorf("%d creates of a name that is taken", n)
	}
	s.r.Client = admitted

	stale := s.group()
	stale.UID = "another"
	if done, err := s.r.adopt(t.Context(), stale, []*corev1.Pod{&s.pods()[0]}); !done || err != nil || len(s.pods()[0].OwnerReferences) > 0 {
		t.Errorf("a group that is gone adopted: %v %v %v", done, err, s.pods()[0].OwnerReferences)
	}
	s.expect("admitted", "0:new | 1 there, 1 updated, 0 ready, 0 outdated")
}
