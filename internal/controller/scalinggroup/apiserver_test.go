// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	podgroup "github.com/trellis-k8s/trellis/internal/provider/podgroup/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// shared is a real API server without kubelets and schedulers: the tests play them, and call Reconcile themselves.
var shared = &apiserver.Shared{
	Environment: envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true},
	Prepare: func(config *rest.Config) error {
		log.SetLogger(logr.Discard())
		c, err := client.New(config, client.Options{})
		if err != nil {
			return err
		}
		return c.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"rack": "r"}}})
	},
}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// server is a test's part of the shared API server: a namespace, and a reconciler whose cache holds that alone.
type server struct {
	t  *testing.T
	ns string
	c  client.Client
	r  *Reconciler
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, trellisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := shared.Config(t)
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := apiserver.Namespace(t, direct)
	cl, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.Cache.DefaultNamespaces = scheme, map[string]cache.Config{ns: {}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := addIndexes(t.Context(), cl.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = cl.Start(ctx) }()
	if !cl.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: cl.GetCache(), EnableReadYourWritesConsistency: ptr.To(true)}})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, ns: ns, c: c, r: &Reconciler{
		Client: c, Live: cl.GetAPIReader(), Providers: provider.New(provider.Options{}, provider.All{
			Placers: []provider.Placer{gates.Placer{Client: c, Live: cl.GetAPIReader()}},
		}),
	}}
	at := time.Now()
	s.r.written.Now = func() time.Time { // what can wait has waited when the next reconcile comes
		at = at.Add(pace.Interval)
		return at
	}
	return s
}

// startable is a group as it can be created in the test's namespace.
func (s *server) startable(sg *trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ScalingGroup {
	sg.Namespace, sg.UID = s.ns, ""
	for i := range sg.Spec.Roles {
		sg.Spec.Roles[i].Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/x:1"}}
	}
	return sg
}

func (s *server) request() ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: s.ns, Name: "g-worker"}}
}

func (s *server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) reconcile() error {
	_, err := s.r.Reconcile(s.t.Context(), s.request())
	return err
}

// settle reconciles, and plays the kubelet of terminating pods, until nothing is written any more.
func (s *server) settle() {
	s.t.Helper()
	for before := ""; ; {
		s.must(s.reconcile())
		now := ""
		for _, pod := range s.pods() {
			now += pod.Name + "/" + pod.ResourceVersion + " "
			if pod.DeletionTimestamp != nil {
				s.must(client.IgnoreNotFound(s.c.Delete(s.t.Context(), &pod, client.GracePeriodSeconds(0))))
			}
		}
		now += s.group().ResourceVersion
		if now == before {
			return
		}
		before = now
	}
}

func (s *server) group() *trellisv1alpha1.ScalingGroup {
	s.t.Helper()
	sg := &trellisv1alpha1.ScalingGroup{}
	s.must(s.c.Get(s.t.Context(), s.request().NamespacedName, sg))
	return sg
}

func (s *server) pods() []corev1.Pod {
	s.t.Helper()
	pods := &corev1.PodList{}
	s.must(s.c.List(s.t.Context(), pods, client.InNamespace(s.ns)))
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods.Items
}

// listing is the pods by name, with the revision they run.
func (s *server) listing() string {
	var out []string
	for _, pod := range s.pods() {
		out = append(out, strings.TrimPrefix(pod.Name, "g-worker-")+":"+pod.Labels[graph.LabelRevision])
	}
	return strings.Join(out, " ")
}

// run plays the provider, the scheduler and the kubelet for the pods of one replica.
func (s *server) run(ordinal int) {
	s.t.Helper()
	for _, pod := range s.pods() {
		if pod.Labels[graph.LabelReplica] != fmt.Sprint(ordinal) {
			continue
		}
		open := pod.DeepCopy()
		open.Spec.SchedulingGates = nil
		s.must(s.c.Patch(s.t.Context(), open, client.MergeFrom(&pod)))
		s.must(s.c.SubResource("binding").Create(s.t.Context(), open, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}))
		s.setReady(pod.Name, true)
	}
}

func (s *server) setReady(name string, is bool) {
	s.t.Helper()
	pod := &corev1.Pod{}
	s.must(s.r.Live.Get(s.t.Context(), types.NamespacedName{Namespace: s.ns, Name: name}, pod))
	ready := pod.DeepCopy()
	ready.Status.Phase = corev1.PodRunning
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if is {
		ready.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	s.must(s.c.Status().Patch(s.t.Context(), ready, client.MergeFrom(pod)))
}

func (s *server) change(edit func(*trellisv1alpha1.ScalingGroupSpec)) {
	s.t.Helper()
	sg := s.group()
	edit(&sg.Spec)
	s.must(s.c.Update(s.t.Context(), sg))
}

func (s *server) expect(title, want string) {
	s.t.Helper()
	s.settle()
	st := s.group().Status
	got := fmt.Sprintf("%s | %d there, %d updated, %d ready, %d outdated", s.listing(), st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.OutdatedReplicas)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", title, diff)
	}
}

// TestGroupOnAnAPIServer takes one group through its life.
func TestGroupOnAnAPIServer(t *testing.T) {
	s := newServer(t)
	sg := s.startable(group(3, 2))
	s.must(s.c.Create(t.Context(), sg))
	made := s.group().ResourceVersion
	s.must(s.reconcile())
	if got := s.group().ResourceVersion; len(s.pods()) != 6 || got != made {
		t.Errorf("there are %d pods, and the status was written before they were seen: version %s, then %s", len(s.pods()), made, got)
	}
	s.expect("created", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 0 ready, 0 outdated")
	for ordinal := range 3 {
		s.run(ordinal)
	}
	s.expect("all run", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 3 ready, 0 outdated")

	s.setReady("g-worker-1-1", false)
	s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Replicas = 2 })
	s.expect("scaled in: the one that does not serve", "0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 2 updated, 2 ready, 0 outdated")

	s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Revision = "newer" })
	s.expect("edited: one is replaced, the other serves", "0-0:new 0-1:new 2-0:newer 2-1:newer | 2 there, 1 updated, 1 ready, 1 outdated")
	if c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionRolledOut); c == nil || c.Reason != trellisv1alpha1.ReasonRolloutWaitsForCapacity {
		t.Errorf("RolledOut = %+v, want it to wait for capacity", c)
	}
	s.run(2)
	s.expect("its successor serves: the other one", "0-0:newer 0-1:newer 2-0:newer 2-1:newer | 2 there, 2 updated, 1 ready, 0 outdated")
	s.run(0)
	s.expect("done", "0-0:newer 0-1:newer 2-0:newer 2-1:newer | 2 there, 2 updated, 2 ready, 0 outdated")
	if got := s.group().Status.Revision; got != "newer" {
		t.Errorf("rolled out %q, want newer", got)
	}

	s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) {
		spec.Restart = &trellisv1alpha1.Restart{ID: "now", Stop: true}
	})
	s.expect("everything stops", " | 0 there, 0 updated, 0 ready, 0 outdated")
	s.must(s.c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "g-worker-0-0"}, Spec: sg.Spec.Roles[0].Template.Spec}))
	s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Restart.Stop = false })
	if err := s.reconcile(); err == nil || !strings.Contains(err.Error(), "not this group's") {
		t.Errorf("a foreign pod has the name of one of ours, and Reconcile says %v", err)
	}
	if c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync); c == nil || c.Reason != trellisv1alpha1.ReasonChangeRefused {
		t.Errorf("PodsInSync = %+v, want the refusal", c)
	}
}

// TestAPIServerDropsWhatTheProviderNeeds: the provider is held to be ready, by a look that is not true any more, and the API server takes the
// group out of every pod, as one whose gate GenericWorkload is off does. Such a pod would be scheduled on its own.
func TestAPIServerDropsWhatTheProviderNeeds(t *testing.T) {
	s := newServer(t)
	placer := switched{Placer: podgroup.Placer{Placer: gates.Placer{Client: s.c, Live: s.r.Live}}, on: true}
	s.r.Providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	sg := s.startable(group(2, 2))
	sg.Spec.Provider = specs.PodGroup.Name
	s.must(s.c.Create(t.Context(), sg))

	err := s.reconcile()
	for _, pod := range []string{"g-worker-0-0", "g-worker-0-1", "g-worker-1-0", "g-worker-1-1"} {
		want := fmt.Sprintf("creating pod %s: the API server dropped what the provider PodGroup needs; the pod is deleted", pod)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	live := &corev1.PodList{}
	s.must(s.r.Live.List(t.Context(), live, client.InNamespace(s.ns)))
	for i := range live.Items {
		if live.Items[i].DeletionTimestamp == nil {
			t.Errorf("pod %s is left, with the group %v", live.Items[i].Name, live.Items[i].Spec.SchedulingGroup)
		}
	}
	if c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync); c == nil || c.Status != metav1.ConditionFalse ||
		!strings.Contains(c.Message, "dropped what the provider PodGroup needs") {
		t.Errorf("PodsInSync = %+v, want it to say so", c)
	}
}
