// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
	"github.com/trellis-k8s/trellis/test/testutil/podgrouptest"
)

// served answers as an API server that serves some versions.
type served struct {
	discovery.ServerResourcesInterface
	resources map[string][]string
	err       error
}

func (s served) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	names, ok := s.resources[version]
	if s.err != nil || !ok {
		if s.err == nil {
			s.err = apierrors.NewNotFound(schema.GroupResource{}, version)
		}
		return nil, s.err
	}
	list := &metav1.APIResourceList{}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func everything() map[string][]string {
	return map[string][]string{"scheduling.k8s.io/v1beta1": {"podgroups", "workloads"}, "scheduling.k8s.io/v1alpha3": {"podgroups", "compositepodgroups"}}
}

// withComposites is what Kubernetes 1.38 serves.
func withComposites() map[string][]string {
	return map[string][]string{"scheduling.k8s.io/v1beta1": {"podgroups", "workloads", "compositepodgroups"}}
}

// placer writes to an API server that does to objects what change says, before they are stored.
func placer(change func(client.Object) error, objects ...client.Object) Placer {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if change != nil {
				if err := change(o); err != nil {
					return err
				}
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	return Placer{Placer: gates.Placer{Client: c, Live: c}, Discovery: served{resources: everything()}, Namespace: "trellis-system"}
}

func TestProbe(t *testing.T) {
	cases := map[string]struct {
		resources map[string][]string
		err       error
		change    func(client.Object) error
		reason    string
		parts     []string
		fails     bool
	}{
		"all there": {resources: everything(), reason: "ProviderAvailable"},
		"composite groups in v1beta1, as in 1.38": {resources: withComposites(), reason: "ProviderAvailable"},
		"nothing served":      {reason: "APINotServed", parts: []string{"does not serve podgroups and workloads of scheduling.k8s.io/v1beta1", "--runtime-config", "1.37"}},
		"no composite groups": {resources: map[string][]string{"scheduling.k8s.io/v1beta1": {"podgroups", "workloads"}}, reason: "APINotServed", parts: []string{"compositepodgroups of scheduling.k8s.io/v1alpha3"}},
		"no answer":           {err: errors.New("connection refused"), fails: true},
		"pods lose their group": {resources: everything(), reason: "FieldsDropped", parts: []string{"spec.schedulingGroup of pods", "GenericWorkload=true"}, change: func(o client.Object) error {
			if pod, ok := o.(*corev1.Pod); ok {
				pod.Spec.SchedulingGroup = nil
			}
			return nil
		}},
		"groups lose their topology": {resources: everything(), reason: "FieldsDropped", parts: []string{"spec.schedulingConstraints of PodGroups", "TopologyAwareWorkloadScheduling=true"}, change: func(o client.Object) error {
			if group, ok := o.(*schedulingv1beta1.PodGroup); ok {
				group.Spec.SchedulingConstraints = nil
			}
			return nil
		}},
		"groups lose their parent": {resources: everything(), reason: "FieldsDropped", parts: []string{"spec.parentCompositePodGroupName"}, change: func(o client.Object) error {
			if group, ok := o.(*schedulingv1beta1.PodGroup); ok {
				group.Spec.ParentCompositePodGroupName = nil
			}
			return nil
		}},
		"pods are refused for another reason": {resources: everything(), reason: "ProviderAvailable", change: func(o client.Object) error {
			if _, ok := o.(*corev1.Pod); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("policy"))
			}
			return nil
		}},
		"a group cannot be tried": {resources: everything(), fails: true, change: func(o client.Object) error {
			if _, ok := o.(*schedulingv1beta1.PodGroup); ok {
				return errors.New("connection reset")
			}
			return nil
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := placer(c.change)
			p.Discovery = served{resources: c.resources, err: c.err}
			got, err := p.Probe(t.Context())
			if (err != nil) != c.fails || got.Reason != c.reason || got.Ready != (c.reason == "ProviderAvailable") {
				t.Fatalf("%+v, %v", got, err)
			}
			for _, part := range c.parts {
				if !strings.Contains(got.Message, part) {
					t.Errorf("%q does not say %q", got.Message, part)
				}
			}
		})
	}
}

func TestForm(t *testing.T) {
	decode, frontend := podgrouptest.Component("Decode", 2, 8, "rack"), podgrouptest.Component("Frontend", 1, 0, "")
	t.Run("in order, and again", func(t *testing.T) {
		gang := podgrouptest.GangOfAll(true, frontend, decode)
		var order []string
		p := placer(func(o client.Object) error { order = append(order, o.GetName()); return nil })
		for range 2 {
			if err := p.Form(t.Context(), gang); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{podgroup.Workload(gang.Graph, gang.Groups).Name, podgroup.GroupOf(prepPod(gang, "Decode")), podgroup.GroupOf(prepPod(gang, "Frontend")), gang.Name}
		if got := strings.Join(order[:4], " "); got != strings.Join(want, " ") {
			t.Errorf("created %s, want %s", got, strings.Join(want, " "))
		}
		root := &schedulingv1alpha3.CompositePodGroup{}
		if err := p.Live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: gang.Name}, root); err != nil || root.Spec.SchedulingPolicy.Gang.MinGroupCount != 2 || len(root.OwnerReferences) != 2 {
			t.Errorf("root %+v, %v", root, err)
		}
	})
	t.Run("under Kubernetes 1.38", func(t *testing.T) {
		gang := podgrouptest.GangOfAll(true, frontend, decode)
		p := placer(nil)
		p.Discovery, p.Composite = served{resources: withComposites()}, &Composite{}
		if _, err := p.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.Form(t.Context(), gang); err != nil {
				t.Fatal(err)
			}
		}
		root := &unstructured.Unstructured{}
		root.SetGroupVersionKind(schedulingv1beta1.SchemeGroupVersion.WithKind("CompositePodGroup"))
		if err := p.Live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: gang.Name}, root); err != nil {
			t.Fatal(err)
		}
		n, _, _ := unstructured.NestedInt64(root.Object, "spec", "schedulingPolicy", "gang", "minGroupCount")
		if n != 2 || len(root.GetOwnerReferences()) != 2 {
			t.Errorf("root %+v", root.Object)
		}
		// another client changes the number, which 1.38 allows
		if err := unstructured.SetNestedField(root.Object, int64(1), "spec", "schedulingPolicy", "gang", "minGroupCount"); err != nil {
			t.Fatal(err)
		}
		if err := p.Client.Update(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if err := p.Form(t.Context(), gang); err != nil {
			t.Fatal(err)
		}
		if err := p.Live.Get(t.Context(), client.ObjectKeyFromObject(root), root); err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(root.Object, "spec", "schedulingPolicy", "gang", "minGroupCount"); n != 2 {
			t.Errorf("minGroupCount is %d, want the 2 groups of the gang", n)
		}
		rest := gang
		rest.Base, rest.Name, rest.Replicas = false, "llm-rest", gang.Replicas[1:]
		if err := p.Form(t.Context(), rest); err != nil {
			t.Errorf("its root is there: %v", err)
		}
		p.Discovery = served{resources: everything()} // the API server is downgraded
		if _, err := p.Probe(t.Context()); err != nil || p.root().GroupVersionKind().Version != "v1alpha3" {
			t.Errorf("%v, %v", p.root().GroupVersionKind(), err)
		}
	})
	t.Run("the rest of a gang that was cut short", func(t *testing.T) {
		gang := podgrouptest.GangOfAll(true, frontend, decode)
		p := placer(nil)
		if err := p.Form(t.Context(), gang); err != nil {
			t.Fatal(err)
		}
		rest := gang
		rest.Base, rest.Name, rest.Replicas = false, "llm-rest", gang.Replicas[1:]
		if err := p.Form(t.Context(), rest); err != nil {
			t.Error(err)
		}
		if err := p.Client.Delete(t.Context(), &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: gang.Name}}); err != nil {
			t.Fatal(err)
		}
		if err := p.Form(t.Context(), rest); !errors.Is(err, provider.ErrStale) {
			t.Errorf("its root is gone: %v, want ErrStale", err)
		}
	})
	t.Run("a gang of other members", func(t *testing.T) {
		gang := podgrouptest.GangOfAll(true, frontend, decode)
		p := placer(nil)
		if err := p.Form(t.Context(), gang); err != nil {
			t.Fatal(err)
		}
		other := gang
		other.Name, other.Replicas = "llm-other", gang.Replicas[:1]
		if err := p.Form(t.Context(), other); !errors.Is(err, provider.ErrStale) {
			t.Errorf("%v, want ErrStale", err)
		}
	})
	t.Run("a field is dropped", func(t *testing.T) {
		p := placer(func(o client.Object) error {
			if group, ok := o.(*schedulingv1beta1.PodGroup); ok {
				group.Spec.SchedulingConstraints = nil
			}
			return nil
		})
		gang := podgrouptest.GangOfAll(false, decode)
		if err := p.Form(t.Context(), gang); err == nil || errors.Is(err, provider.ErrStale) || !strings.Contains(err.Error(), "drops spec.schedulingConstraints") {
			t.Errorf("%v", err)
		}
		if err := p.Form(t.Context(), gang); !errors.Is(err, provider.ErrStale) {
			t.Errorf("the group is there without its constraint: %v, want ErrStale", err)
		}
	})
}

func prepPod(gang gang.Members, component string) *corev1.Pod {
	for _, replica := range gang.Replicas {
		if replica.Group.Spec.Component == component {
			return replica.Pods[0]
		}
	}
	return nil
}

func TestObject(t *testing.T) {
	decode, frontend := podgrouptest.Component("Decode", 2, 8, "rack"), podgrouptest.Component("Frontend", 1, 0, "")
	cases := map[string]struct {
		change  func(_ *gang.Members, p Placer, all []*corev1.Pod) []*corev1.Pod
		message string
		passing bool
		blind   bool
	}{
		"nothing known": {},
		"the pod's condition": {
			change: func(_ *gang.Members, _ Placer, all []*corev1.Pod) []*corev1.Pod {
				all[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/9 nodes"}}
				return all
			},
			message: "the kube-scheduler reports: 0/9 nodes",
		},
		"an error of the scheduler, nothing watched": {
			change: func(_ *gang.Members, _ Placer, all []*corev1.Pod) []*corev1.Pod {
				all[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulerError, Message: "same priority"}}
				return all
			},
			message: "the kube-scheduler reports: same priority", blind: true,
		},
		"it waits for those who free capacity": {
			change: func(_ *gang.Members, _ Placer, all []*corev1.Pod) []*corev1.Pod {
				all[0].Status.NominatedNodeName = "n"
				all[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/9 nodes"}}
				return all
			},
		},
		"a member is lost": {
			change: func(gang *gang.Members, p Placer, all []*corev1.Pod) []*corev1.Pod {
				_ = p.Client.Delete(context.Background(), &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: podgroup.GroupOf(prepPod(*gang, "Frontend"))}})
				return all
			},
			message: "its gang has 1 of 2 pod groups", passing: true,
		},
		"a member is still gated": {
			change: func(_ *gang.Members, _ Placer, all []*corev1.Pod) []*corev1.Pod {
				all[1].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "trellis.dev/placement"}}
				return all
			},
			message: "1 of the 2 pods of", passing: true,
		},
		"its group is gone": {
			change: func(_ *gang.Members, p Placer, all []*corev1.Pod) []*corev1.Pod {
				_ = p.Client.Delete(context.Background(), &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: podgroup.GroupOf(all[0])}})
				return all
			},
			message: "is gone", passing: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			gang := podgrouptest.GangOfAll(true, decode, frontend)
			p := placer(nil)
			if err := p.Form(t.Context(), gang); err != nil {
				t.Fatal(err)
			}
			var all []*corev1.Pod
			for _, replica := range gang.Replicas {
				for _, pod := range replica.Pods {
					pod.Spec.SchedulingGates = nil
					all = append(all, pod)
				}
			}
			if c.change != nil {
				all = c.change(&gang, p, all)
			}
			own := p.Live
			if c.blind {
				own = nil
			}
			for _, pod := range all {
				pod.Labels = map[string]string{"nvidia.com/dynamo-graph-deployment-name": "llm"}
			}
			got := p.Objections(t.Context(), own, all[:1], all)[all[0].UID]
			if (got.Message == "") != (c.message == "") || !strings.Contains(got.Message, c.message) || got.Message != "" && got.Passing != c.passing {
				t.Errorf("%+v, want %q", got, c.message)
			}
		})
	}
}
