// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// evictedWorld is a replica of two pods on nodes n0 and n1 that serves, its scaling group and its deployment.
type evictedWorld struct {
	dgd   *nvidiav1beta1.DynamoGraphDeployment
	group *trellisv1alpha1.ScalingGroup
	pods  [2]*corev1.Pod
	nodes [2]*corev1.Node
}

func newEvicted(namespace string) *evictedWorld {
	e := &evictedWorld{
		dgd: &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "llm", UID: "dgd"}},
		group: &trellisv1alpha1.ScalingGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "llm-worker", UID: "group", OwnerReferences: []metav1.OwnerReference{{
				APIVersion: nvidiav1beta1.GroupVersion.String(), Kind: "DynamoGraphDeployment", Name: "llm", UID: "dgd", Controller: ptr.To(true),
			}}},
			Spec: trellisv1alpha1.ScalingGroupSpec{
				Graph: "llm", Component: "Worker", Provider: specs.Gates.Name, Replicas: 1, Multinode: true, Revision: "1",
				Roles: []trellisv1alpha1.Role{{Name: "main", Count: 2}},
			},
		},
	}
	for i := range e.pods {
		e.nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}
		e.pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("llm-worker-3-%d", i), UID: types.UID(fmt.Sprintf("pod-%d", i)),
				Labels: map[string]string{
					render.LabelScalingGroup: "llm-worker", render.LabelReplica: "3", render.LabelPodIndex: fmt.Sprint(i), render.LabelReplicaSize: "2",
				},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: trellisv1alpha1.GroupVersion.String(), Kind: "ScalingGroup", Name: "llm-worker", UID: "group", Controller: ptr.To(true),
				}},
			},
			Spec:   corev1.PodSpec{NodeName: e.nodes[i].Name, Containers: []corev1.Container{{Name: "main", Image: "example.com/x:1"}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	return e
}

func (e *evictedWorld) objects() []client.Object {
	return []client.Object{e.dgd, e.group, e.pods[0], e.pods[1], e.nodes[0], e.nodes[1]}
}

// handle asks for the eviction of the second pod, and returns what is stored of the request.
func (e *evictedWorld) handle(t *testing.T, change func(*admission.Request, *policyv1.Eviction), funcs interceptor.Funcs) (admission.Response, string) {
	t.Helper()
	scheme := testScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(e.objects()...).WithInterceptorFuncs(funcs).Build()
	v := &evictionValidator{Evictions{evictions.Requests{Cached: c, Writer: c}, func() bool { return true }}}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-worker-3-1"}}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "ns", Name: "llm-worker-3-1", Operation: admissionv1.Create, SubResource: "eviction",
	}}
	if change != nil {
		change(&req, eviction)
	}
	raw, err := json.Marshal(eviction)
	if err != nil {
		t.Fatal(err)
	}
	req.Object = runtime.RawExtension{Raw: raw}
	response := v.Handle(t.Context(), req)
	stored := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(e.pods[1]), stored); client.IgnoreNotFound(err) != nil && funcs.Get == nil {
		t.Fatal(err)
	}
	return response, stored.Annotations[leaving.AnnotationEviction]
}

// TestEvictionsOfReplicasThatServe: those are refused with 429, and the request is stored. All others pass. Of a replica that does not serve
// the request is stored if the pod is Ready, because a budget may refuse to evict it.
func TestEvictionsOfReplicasThatServe(t *testing.T) {
	now := metav1.Now()
	type change = func(*admission.Request, *policyv1.Eviction)
	notReady := func(pod int) func(*evictedWorld) {
		return func(e *evictedWorld) { e.pods[pod].Status.Conditions[0].Status = corev1.ConditionFalse }
	}
	for name, c := range map[string]struct {
		world   func(*evictedWorld)
		request change
		funcs   interceptor.Funcs
		want    string // of the answer; "": it passes
		stored  string // how it begins
		warns   string
	}{
		"serves": {want: "moving Worker-3: its successor is to be created", stored: "pod "},
		"on a cordoned node": {
			world: func(e *evictedWorld) { e.nodes[1].Spec.Unschedulable = true }, want: "moving Worker-3", stored: "node ",
		},
		"on a node with a taint of an autoscaler": {
			world: func(e *evictedWorld) {
				e.nodes[1].Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
			}, want: "moving Worker-3", stored: "node ",
		},
		"moves already": {
			world: func(e *evictedWorld) {
				e.group.Status.Moves = []trellisv1alpha1.ReplicaMove{{Replica: 3}}
				e.group.Status.Conditions = []metav1.Condition{{
					Type: trellisv1alpha1.ConditionMoved, Status: metav1.ConditionFalse, Message: "its successor waits for Ready, 2 of 4 pods",
				}}
			}, want: "its successor waits for Ready, 2 of 4 pods", stored: "pod ",
		},
		"in place": {world: func(e *evictedWorld) { e.group.Spec.Moves = trellisv1alpha1.MovesInPlace }, want: "moving Worker-3", stored: "pod "},
		"never":    {world: func(e *evictedWorld) { e.group.Spec.Moves = trellisv1alpha1.MovesNever }},
		"a dry run": {
			request: func(r *admission.Request, _ *policyv1.Eviction) { r.DryRun = ptr.To(true) }, warns: "Worker-3 would move first",
		},
		"a dry run in the body": {
			request: func(_ *admission.Request, e *policyv1.Eviction) {
				e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
			}, warns: "Worker-3 would move first",
		},
		"of another pod of the name": {request: func(_ *admission.Request, e *policyv1.Eviction) {
			e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}
		}},
		"does not serve":         {world: notReady(1)},
		"the other pod does not": {world: notReady(0), stored: "pod "},
		"the other pod does not, in a dry run": {
			world: notReady(0), request: func(r *admission.Request, _ *policyv1.Eviction) { r.DryRun = ptr.To(true) },
		},
		"lacks a pod": {world: func(e *evictedWorld) { e.pods[1].Labels[render.LabelReplicaSize] = "3" }, stored: "pod "},
		"is on its way out": {world: func(e *evictedWorld) {
			e.pods[0].DeletionTimestamp, e.pods[0].Finalizers = &now, []string{"example.com/f"}
		}, stored: "pod "},
		"of another client":           {world: func(e *evictedWorld) { e.pods[1].OwnerReferences = nil }},
		"of an earlier group":         {world: func(e *evictedWorld) { e.pods[1].OwnerReferences[0].UID = "earlier" }},
		"under Grove":                 {world: func(e *evictedWorld) { e.group.Spec.Provider = specs.Grove.Name }},
		"no such pod":                 {request: func(r *admission.Request, _ *policyv1.Eviction) { r.Name = "gone" }},
		"its deployment is deleted":   {world: func(e *evictedWorld) { e.dgd.DeletionTimestamp, e.dgd.Finalizers = &now, []string{"example.com/f"} }},
		"its deployment is recreated": {world: func(e *evictedWorld) { e.dgd.UID = "another" }},
		"it cannot be read": {
			funcs: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("broken")
			}}, warns: "whether the replica of the pod serves is not known: broken",
		},
		"it cannot be stored": {
			funcs: interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return errors.New("forbidden")
			}}, warns: "the replica of the pod does not move first",
		},
		"stored just now": {world: func(e *evictedWorld) {
			e.pods[1].Annotations = map[string]string{leaving.AnnotationEviction: leaving.Eviction{At: time.Now()}.String()}
		}, funcs: interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("written again")
		}}, want: "moving Worker-3", stored: "pod "},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvicted("ns")
			if c.world != nil {
				c.world(e)
			}
			response, stored := e.handle(t, c.request, c.funcs)
			if response.Allowed != (c.want == "") || !response.Allowed && (response.Result.Code != http.StatusTooManyRequests ||
				response.Result.Reason != metav1.StatusReasonTooManyRequests || !strings.Contains(response.Result.Message, c.want)) {
				t.Errorf("answered %+v", response)
			}
			if (stored == "") != (c.stored == "") || !strings.HasPrefix(stored, c.stored) {
				t.Errorf("stored %q, want %q", stored, c.stored)
			}
			if warned := strings.Join(response.Warnings, "\n"); (warned == "") != (c.warns == "") || !strings.Contains(warned, c.warns) {
				t.Errorf("warned %q, want %q", warned, c.warns)
			}
		})
	}
}

// TestEvictionsBeforeTheCacheIsThere pass: nothing waits for the operator.
func TestEvictionsBeforeTheCacheIsThere(t *testing.T) {
	for name, e := range map[string]Evictions{"no cache": {}, "not synced": {
		Requests: evictions.Requests{Cached: fake.NewClientBuilder().Build()}, Synced: func() bool { return false },
	}} {
		if response := (&evictionValidator{e}).Handle(t.Context(), admission.Request{}); !response.Allowed || len(response.Warnings) > 0 {
			t.Errorf("%s: answered %+v", name, response)
		}
	}
}

var _ = Describe("An eviction of a pod whose replica serves", func() {
	It("is answered with 429 by the API server, and stored; dry runs and evictions of what does not serve pass", func(ctx SpecContext) {
		s := newServer(ctx)
		dgd := readDeployment("", "metadata: {name: llm}\nspec: {services: {Worker: {replicas: 1}}}")
		s.create(dgd)
		e := newEvicted(dgd.GetNamespace())
		e.group.OwnerReferences[0].UID = dgd.GetUID()
		status := [2]corev1.PodStatus{e.pods[0].Status, e.pods[1].Status}
		e.group.UID = ""
		s.create(e.group)
		for i, pod := range e.pods {
			pod.UID, pod.OwnerReferences[0].UID = "", e.group.UID
			s.create(e.nodes[i])
			s.create(pod)
			pod.Status = status[i]
			Expect(s.admin.Status().Update(ctx, pod)).To(Succeed())
		}
		evict := func(options ...client.SubResourceCreateOption) error {
			return s.admin.SubResource("eviction").Create(ctx, e.pods[1], &policyv1.Eviction{}, options...)
		}
		request := func() string {
			s.get(e.pods[1])
			return e.pods[1].Annotations[leaving.AnnotationEviction]
		}
		Expect(evict(client.DryRunAll)).To(Succeed())
		Expect(request()).To(BeEmpty(), "a dry run has started something")
		Expect(evict()).To(And(
			MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"), MatchError(ContainSubstring("moving Worker-3: its successor is to be created")),
		))
		Expect(request()).To(HavePrefix("pod "))
		e.nodes[1].Spec.Unschedulable = true
		Expect(s.admin.Update(ctx, e.nodes[1])).To(Succeed())
		Expect(evict()).To(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"))
		Expect(request()).To(HavePrefix("node "))

		s.get(e.pods[0])
		e.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
		Expect(s.admin.Status().Update(ctx, e.pods[0])).To(Succeed())
		Expect(evict()).To(Succeed(), "nothing serves that would have to move first")
	}, SpecTimeout(suite.Timeout()))
})
