// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// Missing rights on AdmissionChecks are told to all deployments in queues once, and that they were given, too.
func TestActivateWithoutRights(t *testing.T) {
	check := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"controllerName": quota.CheckController}}}
	check.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("AdmissionCheck"))
	check.SetName("place")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "admissionchecks"}, "", errors.New("no"))
	var list, patch error
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			into.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*check}
			return list
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return patch
		},
	})
	told := 0
	a := &activator{client: c, live: c, denied: &quota.Denied{}, tell: func(context.Context) { told++ }}
	for i, step := range []struct {
		list, patch error
		denied      bool
		fails       bool
		told        int
	}{
		{told: 0},
		{list: forbidden, denied: true, told: 1},
		{list: forbidden, denied: true, told: 1},
		{patch: forbidden, denied: true, told: 1},
		{told: 2},
		{list: errors.New("no route"), fails: true, told: 2},
	} {
		list, patch = step.list, step.patch
		err := a.activate(t.Context())
		why := a.denied.Why()
		if (err != nil) != step.fails || (why != "") != step.denied || told != step.told {
			t.Errorf("step %d: %v, denied %q, told %d times", i, err, why, told)
		}
		if step.denied && !strings.Contains(why, "config/kueue-placement") {
			t.Errorf("step %d: %q does not name the rights", i, why)
		}
	}
}

type oneResult gang.Result

func (r oneResult) Get(types.NamespacedName, types.UID) (gang.Result, bool) {
	return gang.Result(r), true
}

// A Workload without a place gets the state Retry with no time: Kueue keeps quota until that. Then it is made inactive, whatever Kueue has changed.
func TestRetryGivesQuotaBack(t *testing.T) {
	check := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"controllerName": quota.CheckController}}}
	check.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("AdmissionCheck"))
	check.SetName("place")
	var wrote []string
	conflicts := false
	add := func(kind string, patch client.Patch) error {
		data, err := patch.Data(nil)
		wrote = append(wrote, kind+" "+string(data))
		return err
	}
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			into.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*check}
			return nil
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, _ client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			if conflicts {
				_ = add("status", p)
				return apierrors.NewConflict(schema.GroupResource{Resource: "workloads"}, "w", nil)
			}
			return add("status", p)
		},
		Patch: func(_ context.Context, _ client.WithWatch, _ client.Object, p client.Patch, _ ...client.PatchOption) error {
			return add("object", p)
		},
	})
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	reserved := metav1.Condition{Type: "QuotaReserved", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}
	w := &quota.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w", UID: "u", ResourceVersion: "7"},
		Status: quota.WorkloadStatus{
			Conditions: []metav1.Condition{reserved}, Admission: &quota.Admission{ClusterQueue: "cq"},
			AdmissionChecks: []quota.CheckState{{Name: "place", State: quota.CheckPending, RetryCount: ptr.To[int32](1)}},
		},
	}
	r := &Reconciler{Client: c, Checks: Checks{
		Live: c, Promises: quota.NewPromises(), Waits: quota.DefaultWaits, Clock: clocktesting.NewFakePassiveClock(noon),
		Results: oneResult{Checked: map[string]gang.Checked{"w": {Why: "full", Fingerprint: quota.Promise{}.Fingerprint("w", nil)}}},
	}}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	look := func(after time.Duration) {
		t.Helper()
		r.Checks.Clock = clocktesting.NewFakePassiveClock(noon.Add(after))
		if _, err := r.check(t.Context(), &quota.Observation{DGD: dgd, Workloads: []*quota.Workload{w}}); err != nil {
			t.Fatal(err)
		}
	}
	look(-quota.DefaultWaits.Keep)
	look(-time.Second)
	if len(wrote) > 0 {
		t.Errorf("the place is looked for since less than a minute: %v", wrote)
	}
	conflicts = true
	look(0)
	if len(wrote) != 1 {
		t.Errorf("another client has changed the Workload since: %v", wrote)
	}
	wrote, conflicts = nil, false
	look(0)
	const why = "no place was found for 1m0s, so the quota is given back: full"
	want := []string{
		`status {"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w","namespace":"ns","resourceVersion":"7"},` +
			`"status":{"admissionChecks":[{"name":"place","state":"Retry","lastTransitionTime":"2030-01-01T12:00:00Z","message":"` + why + `"}]}}`,
		`object {"metadata":{"annotations":{"trellis.dev/ask-for-quota-after":"2030-01-01T12:02:00Z","trellis.dev/no-place":"` + why + `"},"uid":"u"},"spec":{"active":false}}`,
	}
	if diff := cmp.Diff(want, wrote); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
