// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	podgroup "github.com/trellis-k8s/trellis/internal/provider/podgroup/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// server is a spec's part of the suite's API server: a namespace, and a reconciler whose cache holds that alone.
type server struct {
	ctx context.Context
	ns  string
	c   client.Client
	r   *Reconciler
	// record is what the scheduler has recorded of the graph.
	record *assignment.Record
}

func newServer(ctx context.Context) *server {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nvidiav1beta1.AddToScheme, trellisv1alpha1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	direct, err := client.New(shared, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	ns := suite.Namespace(direct)
	cl, err := cluster.New(shared, func(o *cluster.Options) {
		o.Scheme, o.Cache.DefaultNamespaces = scheme, map[string]cache.Config{ns: {}}
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(addIndexes(ctx, cl.GetFieldIndexer())).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	go func() { _ = cl.Start(running) }()
	Expect(cl.GetCache().WaitForCacheSync(ctx)).To(BeTrue(), "the cache does not sync")
	c, err := client.New(shared, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: cl.GetCache(), EnableReadYourWritesConsistency: ptr.To(true)}})
	Expect(err).NotTo(HaveOccurred())
	record := (&assignment.Record{}).Clone()
	s := &server{ctx: ctx, ns: ns, c: c, record: record, r: &Reconciler{
		Client: c, Live: cl.GetAPIReader(), Domains: direct, Providers: provider.New(provider.Options{}, provider.All{
			Placers: []provider.Placer{gates.Placer{Client: c, Live: cl.GetAPIReader()}},
		}),
		Recorded: func(_ context.Context, sg *trellisv1alpha1.ScalingGroup) (assignment.Replicas, error) {
			return record.Replicas(sg.Spec.Component), nil
		},
	}}
	at := time.Now()
	s.r.written.Now = func() time.Time { // what can wait has waited when the next reconcile comes
		at = at.Add(pace.Interval)
		return at
	}
	return s
}

// startable is a group as it can be created in the spec's namespace.
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

func (s *server) reconcile() error {
	_, err := s.r.Reconcile(s.ctx, s.request())
	return err
}

// settle reconciles, and plays the kubelet of terminating pods, until nothing is written any more.
func (s *server) settle() {
	GinkgoHelper()
	for before := ""; ; {
		Expect(s.reconcile()).To(Succeed())
		now := ""
		for _, pod := range s.pods() {
			now += pod.Name + "/" + pod.ResourceVersion + " "
			if pod.DeletionTimestamp != nil {
				Expect(client.IgnoreNotFound(s.c.Delete(s.ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
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
	GinkgoHelper()
	sg := &trellisv1alpha1.ScalingGroup{}
	Expect(s.c.Get(s.ctx, s.request().NamespacedName, sg)).To(Succeed())
	return sg
}

func (s *server) pods() []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(s.c.List(s.ctx, pods, client.InNamespace(s.ns))).To(Succeed())
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods.Items
}

// listing is the pods by name, with the revision they run.
func (s *server) listing() string {
	var out []string
	for _, pod := range s.pods() {
		out = append(out, strings.TrimPrefix(pod.Name, "g-worker-")+":"+pod.Labels[render.LabelRevision])
	}
	return strings.Join(out, " ")
}

// run plays the provider, the scheduler and the kubelet for the pods of one replica.
func (s *server) run(ordinal int) {
	GinkgoHelper()
	for _, pod := range s.pods() {
		if pod.Labels[render.LabelReplica] != fmt.Sprint(ordinal) {
			continue
		}
		open := pod.DeepCopy()
		open.Spec.SchedulingGates = nil
		Expect(s.c.Patch(s.ctx, open, client.MergeFrom(&pod))).To(Succeed())
		Expect(s.c.SubResource("binding").Create(s.ctx, open, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})).To(Succeed())
		s.setReady(pod.Name, true)
	}
}

func (s *server) setReady(name string, is bool) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(s.r.Live.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: name}, pod)).To(Succeed())
	ready := pod.DeepCopy()
	ready.Status.Phase = corev1.PodRunning
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if is {
		ready.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	Expect(s.c.Status().Patch(s.ctx, ready, client.MergeFrom(pod))).To(Succeed())
}

func (s *server) change(edit func(*trellisv1alpha1.ScalingGroupSpec)) {
	GinkgoHelper()
	sg := s.group()
	edit(&sg.Spec)
	Expect(s.c.Update(s.ctx, sg)).To(Succeed())
}

func (s *server) expect(title, want string) {
	GinkgoHelper()
	s.settle()
	st := s.group().Status
	got := fmt.Sprintf("%s | %d there, %d updated, %d ready, %d outdated", s.listing(), st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.OutdatedReplicas)
	Expect(cmp.Diff(want, got)).To(BeEmpty(), "%s (-want +got)", title)
}

var _ = Describe("A scaling group", func() {
	It("is made, scaled in, updated one replica after the other, restarted, and reports a foreign pod of the name of one of its own", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		sg := s.startable(group(3, 2))
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		made := s.group().ResourceVersion
		Expect(s.reconcile()).To(Succeed())
		Expect(s.pods()).To(HaveLen(6))
		Expect(s.group().ResourceVersion).To(Equal(made), "the status was written before the pods were seen")
		s.expect("created", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 0 ready, 0 outdated")
		for ordinal := range 3 {
			s.run(ordinal)
		}
		s.expect("all run", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 3 ready, 0 outdated")
		for _, ordinal := range []int{0, 2} { // those that stay
			s.record.Bound[assignment.Key{Component: sg.Spec.Component, Ordinal: ordinal}] = assignment.Place{Attempt: 1}
		}

		s.setReady("g-worker-1-1", false)
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Replicas = 2 })
		s.expect("scaled in: the one that does not serve", "0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 2 updated, 2 ready, 0 outdated")

		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Revision = "newer" })
		s.expect("edited: one is replaced, the other serves", "0-0:new 0-1:new 2-0:newer 2-1:newer | 2 there, 1 updated, 1 ready, 1 outdated")
		Expect(meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionRolledOut)).To(HaveField("Reason", trellisv1alpha1.ReasonRolloutWaitsForCapacity))
		s.run(2)
		s.expect("its successor serves: the other one", "0-0:newer 0-1:newer 2-0:newer 2-1:newer | 2 there, 2 updated, 1 ready, 0 outdated")
		s.run(0)
		s.expect("done", "0-0:newer 0-1:newer 2-0:newer 2-1:newer | 2 there, 2 updated, 2 ready, 0 outdated")
		Expect(s.group().Status.Revision).To(Equal("newer"), "rolled out")

		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) {
			spec.Restart = &trellisv1alpha1.Restart{ID: "now", Stop: true}
		})
		s.expect("everything stops", " | 0 there, 0 updated, 0 ready, 0 outdated")
		Expect(s.c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "g-worker-0-0"}, Spec: sg.Spec.Roles[0].Template.Spec})).To(Succeed())
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Restart.Stop = false })
		Expect(s.reconcile()).To(MatchError(ContainSubstring("does not belong to this group")), "a foreign pod has the name of one of ours")
		Expect(meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)).To(HaveField("Reason", trellisv1alpha1.ReasonChangeRefused))
	})
})

var _ = Describe("An API server that drops what the provider needs", func() {
	It("has the pods deleted, and the refusal is reported", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		placer := switched{Placer: podgroup.Placer{Placer: gates.Placer{Client: s.c, Live: s.r.Live}}, on: true}
		s.r.Providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
		sg := s.startable(group(2, 2))
		sg.Spec.Provider = specs.PodGroup.Name
		Expect(s.c.Create(ctx, sg)).To(Succeed())

		err := s.reconcile()
		for _, pod := range []string{"g-worker-0-0", "g-worker-0-1", "g-worker-1-0", "g-worker-1-1"} {
			want := fmt.Sprintf("creating pod %s: the API server dropped what the provider PodGroup needs; the pod is deleted", pod)
			Expect(err).To(MatchError(ContainSubstring(want)))
		}
		live := &corev1.PodList{}
		Expect(s.r.Live.List(ctx, live, client.InNamespace(s.ns))).To(Succeed())
		for i := range live.Items {
			Expect(live.Items[i].DeletionTimestamp).NotTo(BeNil(), "pod %s is left, with the group %v", live.Items[i].Name, live.Items[i].Spec.SchedulingGroup)
		}
		c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
		Expect(c).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring("dropped what the provider PodGroup needs"))))
	})
})
