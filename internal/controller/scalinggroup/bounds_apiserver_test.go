// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// counting counts the pods that are asked for, made or not.
type counting struct {
	client.Client
	creates atomic.Int64
}

func (c *counting) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.creates.Add(1)
	return c.Client.Create(ctx, o, opts...)
}

// Nothing is remembered of groups that are gone, or the operator's memory would grow with each that comes and goes.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	s := newServer(t)
	sg := s.startable(group(1, 1))
	s.must(s.c.Create(t.Context(), sg))
	s.r.refusals.note(sg, errors.New("exceeded quota"))
	s.r.written.Wrote(s.request().NamespacedName)
	maps := func() (n int) {
		for _, v := range []reflect.Value{reflect.ValueOf(&s.r.refusals).Elem(), reflect.ValueOf(&s.r.written).Elem()} {
			for i := range v.NumField() {
				if v.Field(i).Kind() == reflect.Map {
					n += v.Field(i).Len()
				}
			}
		}
		return n
	}
	if maps() != 2 {
		t.Fatalf("%d entries are counted", maps())
	}
	s.must(s.c.Delete(t.Context(), sg))
	s.must(s.reconcile())
	if maps() != 0 {
		t.Errorf("%d entries are left", maps())
	}
}

// Of 65536 replicas under a quota of 20 pods, 20 are made. What the quota refuses is asked for once a delay, however often the group is looked
// at, and the status keeps saying why.
func TestQuotaRefusesPods(t *testing.T) {
	s := newServer(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("20")}
	s.must(s.c.Create(t.Context(), quota))
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	s.must(s.c.Status().Update(t.Context(), quota)) // the quota controller's part
	counted, clock := &counting{Client: s.c}, time.Now()
	s.r.Client, s.r.refusals.now = counted, func() time.Time { return clock }
	s.must(s.c.Create(t.Context(), s.startable(group(65536, 1))))

	if err := s.reconcile(); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Fatalf("the first try ends with %v", err)
	}
	if got := counted.creates.Load(); len(s.pods()) != 20 || got > 32 {
		t.Fatalf("%d pods of 20 were made with %d creates; two rounds of 16 are enough", len(s.pods()), got)
	}
	counted.creates.Store(0)
	for range 100 { // events of its pods
		result, err := s.r.Reconcile(t.Context(), s.request())
		s.must(err)
		if result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
			t.Fatalf("it looks again after %v", result.RequeueAfter)
		}
	}
	if got := counted.creates.Load(); got != 0 {
		t.Errorf("%d creates within the delay", got)
	}
	if c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("PodsInSync = %+v, want the refusal", c)
	}
	for range 10 { // five minutes at most
		clock = clock.Add(maxDelay)
		_ = s.reconcile()
	}
	if got := counted.creates.Load(); got != 10 {
		t.Errorf("%d creates in ten tries, want one each", got)
	}

	quota = &corev1.ResourceQuota{}
	s.must(s.r.Live.Get(t.Context(), types.NamespacedName{Namespace: s.ns, Name: "pods"}, quota))
	s.must(s.c.Delete(t.Context(), quota))
	clock = clock.Add(maxDelay)
	for range 100 { // the admission plugin sees the deletion a little later
		if err := s.reconcile(); err == nil {
			break
		}
		clock = clock.Add(maxDelay)
	}
	if got := len(s.pods()); got != 20+batch {
		t.Errorf("%d pods after the quota is gone, want one batch more than 20", got)
	}
}

// Nothing is made for a group that is deleted, or whose deployment is, although the cache does not know yet.
func TestNothingIsMadeForWhatIsGone(t *testing.T) {
	s := newServer(t)
	counted := &counting{Client: s.c}
	s.r.Client = counted
	for name, gone := range map[string]func(sg *trellisv1alpha1.ScalingGroup){
		"no such deployment":        func(sg *trellisv1alpha1.ScalingGroup) { own(sg, "g", "1") },
		"no such group":             func(sg *trellisv1alpha1.ScalingGroup) { sg.Name = "absent" },
		"another group of its name": func(sg *trellisv1alpha1.ScalingGroup) { sg.UID = "another" },
		"the group is being deleted": func(*trellisv1alpha1.ScalingGroup) {
			live := s.group()
			live.Finalizers = []string{"example.com/hold"}
			s.must(s.c.Update(t.Context(), live))
			s.must(s.c.Delete(t.Context(), live))
		},
	} {
		t.Run(name, func(t *testing.T) {
			created := s.startable(group(2, 2))
			s.must(s.c.Create(t.Context(), created))
			sg := created.DeepCopy()
			gone(sg)
			is, err := s.r.isGone(t.Context(), sg)
			if err != nil || !is {
				t.Errorf("gone %v, %v", is, err)
			}
			live := s.group()
			live.Finalizers = nil
			s.must(s.c.Update(t.Context(), live))
			s.must(client.IgnoreNotFound(s.c.Delete(t.Context(), live)))
		})
	}
	sg := s.startable(group(2, 2))
	own(sg, "g", "1")
	s.must(s.c.Create(t.Context(), sg))
	before := s.group().ResourceVersion
	s.must(s.reconcile())
	if got := counted.creates.Load(); got != 0 || s.group().ResourceVersion != before {
		t.Errorf("%d pods were asked for, or the status was written, for a deployment that is gone", got)
	}
}

func own(sg *trellisv1alpha1.ScalingGroup, name string, uid types.UID) {
	owner := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	sg.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.GroupVersionKind{Group: nvidiav1alpha1.GroupVersion.Group, Version: "v1alpha1", Kind: "DynamoGraphDeployment"})}
}
