// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// gangs are the replicas of a namespace, each with the number of its pods, such as "g-worker-0:2".
func (b *bare) gangs(namespace string) string {
	GinkgoHelper()
	counts := map[string]int{}
	for _, pod := range b.pods(namespace) {
		if pod.DeletionTimestamp == nil {
			counts[strings.TrimPrefix(gang.Of(&pod), namespace+"/")]++
		}
	}
	var out []string
	for name, pods := range counts {
		out = append(out, fmt.Sprintf("%s:%d", name, pods))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// holds waits until the replicas are these and each of some deployments says why it waits.
func (b *bare) holds(namespace, want string, waiting map[string]string) {
	GinkgoHelper()
	b.until("the replicas are "+want, func() error {
		for name, words := range waiting {
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			Expect(b.c.Get(b.ctx, client.ObjectKey{Namespace: namespace, Name: name}, dgd)).To(Succeed())
			if !slices.ContainsFunc(dgd.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == nvidiav1alpha1.ConditionReady && strings.Contains(c.Message, words)
			}) {
				return fmt.Errorf("%s says %+v, want %q; the replicas are %s", name, dgd.Status.Conditions, words, b.gangs(namespace))
			}
		}
		if got := b.gangs(namespace); got != want {
			return fmt.Errorf("they are %s", got)
		}
		return nil
	})
}

// oneComponent checks a component of three replicas: a replica is created when all of its pods fit in the quota.
func (b *bare) oneComponent(provider string) {
	GinkgoHelper()
	namespace := newNamespace(b.c)
	quotas.Limit(b.ctx, b.c, namespace, quotas.GPUs("16"))
	dgd := deployment(namespace, graphs.Components{"Worker": graphs.Worker(3, 2, 8, "")})
	dgd.Annotations = map[string]string{render.AnnotationProvider: provider}
	Expect(b.c.Create(b.ctx, dgd)).To(Succeed())
	b.holds(namespace, "g-worker-0:2", map[string]string{"g": lacksAll})
	quotas.Limit(b.ctx, b.c, namespace, quotas.GPUs("40"))
	b.holds(namespace, "g-worker-0:2 g-worker-1:2", map[string]string{"g": "used: requests.nvidia.com/gpu=32"})
}

// severalDeployments wait for quota, and are created in their order when it is raised.
func (b *bare) severalDeployments(provider string) {
	GinkgoHelper()
	namespace := newNamespace(b.c)
	quotas.Limit(b.ctx, b.c, namespace, quotas.GPUs("8"))
	for _, name := range []string{"g1", "g2", "g3", "g4"} {
		dgd := deployment(namespace, graphs.Components{"Worker": graphs.Worker(1, 2, 8, "")})
		dgd.Name, dgd.Annotations = name, map[string]string{render.AnnotationProvider: provider}
		Expect(b.c.Create(b.ctx, dgd)).To(Succeed())
		b.holds(namespace, "", map[string]string{name: "limited: requests.nvidia.com/gpu=8"})
	}
	quotas.Limit(b.ctx, b.c, namespace, quotas.GPUs("40"))
	b.holds(namespace, "g1-worker-0:2 g2-worker-0:2", map[string]string{"g4": "Worker-0 of g3 waits before it"})
	quotas.Limit(b.ctx, b.c, namespace, quotas.GPUs("64"))
	b.holds(namespace, "g1-worker-0:2 g2-worker-0:2 g3-worker-0:2 g4-worker-0:2", nil)
}

// serving: a replica that serves returns whole after a pod of it is lost, before others that wait for the quota.
func (p *inPlaceWorld) serving(provider string) {
	GinkgoHelper()
	quotas.Limit(p.ctx, p.c, p.namespace, quotas.GPUs("16"))
	create := func(name string) *nvidiav1alpha1.DynamoGraphDeployment {
		dgd := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		dgd.Name, dgd.Annotations = name, map[string]string{render.AnnotationProvider: provider}
		Expect(p.c.Create(p.ctx, dgd)).To(Succeed())
		return dgd
	}
	dgd := create("g")
	p.bindAll(2)
	create("b-other")
	before := dgd.DeepCopy()
	*dgd.Spec.Services["Worker"].Replicas = 3
	Expect(p.c.Patch(p.ctx, dgd, client.MergeFrom(before))).To(Succeed())
	p.holds(p.namespace, "g-worker-0:2", map[string]string{"g": lacksAll, "b-other": lacksAll})
	for range 3 {
		uids := graphs.UIDs(p.pods(p.namespace))
		lost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "g-worker-0-1"}}
		Expect(p.c.Delete(p.ctx, lost, client.GracePeriodSeconds(0))).To(Succeed())
		p.until("the replica is there again, and nothing else", func() error {
			p.endPods(p.namespace)
			return graphs.AllNew(uids, p.pods(p.namespace), 2)
		})
		p.bindAll(2)
		p.holds(p.namespace, "g-worker-0:2", nil)
	}
}

// lacksAll is said of what waits while a quota of 16 GPUs is used up.
const lacksAll = "exceeded quota: q, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16"

var _ = Describe("Gangs in a namespace with a quota", func() {
	for _, under := range []string{specs.Gates.Name, specs.Gates.Name + ", gated"} {
		It("are created one after the other under "+under+", so that what fits is whole", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			b := newBareWith(ctx, client.New, func(o *Options) { o.GateAllPods = strings.Contains(under, "gated") })
			quotas.Count(shared)
			for range 4 { // which pods are refused depends on the order in which they reach the API server
				b.oneComponent(specs.Gates.Name)
			}
		})
	}

	It("of several deployments are created in the order of these when the quota is raised", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareWith(ctx, client.New, nil)
		quotas.Count(shared)
		b.severalDeployments(specs.Gates.Name)
	})

	It("of a priority class that a quota bounds are whole, and others do not wait", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareWith(ctx, client.New, nil)
		quotas.Count(shared)
		namespace := newNamespace(b.c)
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high-" + namespace}, Value: 100}
		Expect(b.c.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) error { return b.c.Delete(ctx, class) })
		quotas.Limit(ctx, b.c, namespace, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}, class.Name)
		high := deployment(namespace, graphs.Components{"Worker": graphs.Worker(2, 2, 8, "")})
		high.Spec.Services["Worker"].ExtraPodSpec.PodSpec = &corev1.PodSpec{PriorityClassName: class.Name}
		Expect(b.c.Create(ctx, high)).To(Succeed())
		b.holds(namespace, "g-worker-0:2", map[string]string{"g": "exceeded quota: q, requested: pods=2, used: pods=2, limited: pods=3"})
		usual := deployment(namespace, graphs.Components{"Worker": graphs.Worker(2, 2, 8, "")})
		usual.Name = "usual"
		Expect(b.c.Create(ctx, usual)).To(Succeed())
		b.holds(namespace, "g-worker-0:2 usual-worker-0:2 usual-worker-1:2", nil)
	})

	It("are one gang where a deployment is packed into one domain", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		quotas.Count(shared)
		quotas.Limit(ctx, p.c, p.namespace, quotas.GPUs("16"))
		Expect(p.c.Create(ctx, p.graph("zone", graphs.Components{"A": graphs.Worker(1, 1, 8, ""), "B": graphs.Worker(1, 2, 8, "")}))).To(Succeed())
		p.holds(p.namespace, "", map[string]string{"g": "creating the base gang of g: exceeded quota: q, requested: requests.nvidia.com/gpu=24"})
		quotas.Limit(ctx, p.c, p.namespace, quotas.GPUs("24"))
		p.holds(p.namespace, "g-a-0:1 g-b-0:2", nil)
	})

	It("that serve return before further replicas are created", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		quotas.Count(shared)
		p.serving(specs.Gates.Name)
	})
})

// An API server with the alpha APIs of gangs is slow to start, so the specs share one.
var _ = Describe("Gangs under PodGroup in a namespace with a quota", Ordered, func() {
	var config *rest.Config

	BeforeAll(func() {
		config = launchWith(filepath.Join("..", "..", "config", "crd", "bases"), func(arguments *envtest.Arguments) {
			arguments.Append("runtime-config", "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true")
			arguments.Append("feature-gates", "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true")
		})
	})

	It("are created one after the other, so that what fits is whole", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareOn(ctx, config, client.New, nil)
		quotas.Count(config)
		for range 4 {
			b.oneComponent(specs.PodGroup.Name)
		}
	})

	It("of several deployments are created in the order of these when the quota is raised", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareOn(ctx, config, client.New, nil)
		quotas.Count(config)
		b.severalDeployments(specs.PodGroup.Name)
	})

	It("that serve return before further replicas are created", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorldOn(ctx, config, nil, "a", "b")
		quotas.Count(config)
		p.serving(specs.PodGroup.Name)
	})
})

// bindAll plays the kube-scheduler and the kubelets: so many pods are released, bound, and ready.
func (p *inPlaceWorld) bindAll(pods int) {
	GinkgoHelper()
	p.until("all pods run", func() error {
		all, taken := p.pods(p.namespace), map[string]bool{}
		for i := range all {
			taken[all[i].Spec.NodeName] = true
		}
		for i := range all {
			pod := &all[i]
			if render.GateClosed(pod) {
				return fmt.Errorf("pod %s is gated", pod.Name)
			}
			if pod.Spec.NodeName == "" {
				if err := p.bind(pod, taken); err != nil {
					return err
				}
			}
		}
		if len(all) != pods {
			return fmt.Errorf("there are %d", len(all))
		}
		return nil
	})
}

func (p *inPlaceWorld) bind(pod *corev1.Pod, taken map[string]bool) error {
	for _, host := range []string{"a0", "a1", "b0", "b1"} {
		name := p.namespace + "-" + host
		if pinned := gang.PinnedHost(pod); pinned == "" && taken[name] || pinned != "" && pinned != name {
			continue
		}
		taken[name] = true
		err := p.c.SubResource("binding").Create(p.ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: name}})
		if err != nil {
			return err
		}
		Expect(p.c.Get(p.ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		before := pod.DeepCopy()
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		return p.c.Status().Patch(p.ctx, pod, client.MergeFrom(before))
	}
	return errors.New("no host is free")
}

var _ = Describe("Gangs whose pods a webhook counts", func() {
	It("are whole, or have no pods", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := &podWrites{}
		b := newBareWith(ctx, w.newClient, func(o *Options) { o.GateAllPods = true })
		namespace := newNamespace(b.c)
		var mu sync.Mutex
		counted := map[string]bool{}
		w.admit = func(pod *corev1.Pod, trial bool) error { // 3 pods at most
			mu.Lock()
			defer mu.Unlock()
			if !trial && !counted[pod.Name] && len(counted) >= 3 {
				return forbidden(pod)
			}
			if !trial {
				counted[pod.Name] = true
			}
			return nil
		}
		w.ends = func(pod client.Object) error {
			mu.Lock()
			defer mu.Unlock()
			delete(counted, pod.GetName())
			return nil
		}
		Expect(b.c.Create(ctx, deployment(namespace, graphs.Components{"Worker": graphs.Worker(3, 2, 8, "")}))).To(Succeed())
		var whole string
		b.until("one replica is whole, and the others have no pods", func() error { // whichever was counted first
			if whole = b.gangs(namespace); !slices.Contains([]string{"g-worker-0:2", "g-worker-1:2", "g-worker-2:2"}, whole) {
				return fmt.Errorf("the replicas are %s", whole)
			}
			return nil
		})
		b.holds(namespace, whole, map[string]string{"g": "exceeded quota"})
	})
})
