// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// countQuotas runs the quota controller of Kubernetes until the spec ends.
func countQuotas() {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: shared.Host, CertificateAuthorityData: shared.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: shared.CertData, ClientKeyData: shared.KeyData}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	program := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), "--kubeconfig="+file, "--leader-elect=false",
		"--secure-port=0", "--controllers=resourcequota-controller", "--kube-api-qps=1000", "--kube-api-burst=2000")
	Expect(program.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
}

// gpuQuota limits the GPUs of a namespace, and waits until the limit is in force.
func (b *bare) gpuQuota(namespace string, hard corev1.ResourceList, classes ...string) {
	GinkgoHelper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if len(classes) > 0 {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: classes,
		}}}
	}
	before := q.DeepCopy()
	if err := b.c.Get(b.ctx, client.ObjectKeyFromObject(q), before); err == nil {
		q = before.DeepCopy()
		q.Spec.Hard = hard
		Expect(b.c.Patch(b.ctx, q, client.MergeFrom(before))).To(Succeed())
	} else {
		Expect(b.c.Create(b.ctx, q)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(b.c.Delete(ctx, q)) })
	}
	b.until("the quota is in force", func() error {
		Expect(b.c.Get(b.ctx, client.ObjectKeyFromObject(q), q)).To(Succeed())
		for name, amount := range hard {
			if of := q.Status.Hard[name]; of.Cmp(amount) != 0 {
				return fmt.Errorf("it is %v", q.Status)
			}
		}
		return nil
	})
}

func gpus(n string) corev1.ResourceList {
	return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(n)}
}

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

var _ = Describe("Gangs in a namespace with a quota", func() {
	const lacks = "exceeded quota: q, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16"
	for _, under := range []string{specs.Gates.Name, specs.Gates.Name + ", gated"} {
		It("are created one after the other under "+under+", so that what fits is whole", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			b := newBareWith(ctx, client.New, func(o *Options) { o.GateAllPods = strings.Contains(under, "gated") })
			countQuotas()
			for range 4 { // which pods are refused depends on the order in which they reach the API server
				namespace := newNamespace(b.c)
				b.gpuQuota(namespace, gpus("16"))
				Expect(b.c.Create(ctx, deployment(namespace, graphs.Components{"Worker": graphs.Worker(3, 2, 8, "")}))).To(Succeed())
				b.holds(namespace, "g-worker-0:2", map[string]string{"g": lacks})
				b.gpuQuota(namespace, gpus("40"))
				b.holds(namespace, "g-worker-0:2 g-worker-1:2", map[string]string{"g": "used: requests.nvidia.com/gpu=32"})
			}
		})
	}

	It("of several deployments are created in the order of these when the quota is raised", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareWith(ctx, client.New, nil)
		countQuotas()
		namespace := newNamespace(b.c)
		b.gpuQuota(namespace, gpus("8"))
		for _, name := range []string{"g1", "g2", "g3", "g4"} {
			dgd := deployment(namespace, graphs.Components{"Worker": graphs.Worker(1, 2, 8, "")})
			dgd.Name = name
			Expect(b.c.Create(ctx, dgd)).To(Succeed())
			b.holds(namespace, "", map[string]string{name: "limited: requests.nvidia.com/gpu=8"})
		}
		b.gpuQuota(namespace, gpus("40"))
		b.holds(namespace, "g1-worker-0:2 g2-worker-0:2", map[string]string{"g4": "Worker-0 of g3 waits before it"})
		b.gpuQuota(namespace, gpus("64"))
		b.holds(namespace, "g1-worker-0:2 g2-worker-0:2 g3-worker-0:2 g4-worker-0:2", nil)
	})

	It("of a priority class that a quota bounds are whole, and others do not wait", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareWith(ctx, client.New, nil)
		countQuotas()
		namespace := newNamespace(b.c)
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high-" + namespace}, Value: 100}
		Expect(b.c.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) error { return b.c.Delete(ctx, class) })
		b.gpuQuota(namespace, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}, class.Name)
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
		countQuotas()
		p.gpuQuota(p.namespace, gpus("16"))
		Expect(p.c.Create(ctx, p.graph("zone", graphs.Components{"A": graphs.Worker(1, 1, 8, ""), "B": graphs.Worker(1, 2, 8, "")}))).To(Succeed())
		p.holds(p.namespace, "", map[string]string{"g": "creating the base gang of g: exceeded quota: q, requested: requests.nvidia.com/gpu=24"})
		p.gpuQuota(p.namespace, gpus("24"))
		p.holds(p.namespace, "g-a-0:1 g-b-0:2", nil)
	})

	It("that serve return before further replicas are created", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		countQuotas()
		p.gpuQuota(p.namespace, gpus("16"))
		dgd := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		p.bindAll(2)
		other := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		other.Name = "b-other"
		Expect(p.c.Create(ctx, other)).To(Succeed())
		before := dgd.DeepCopy()
		*dgd.Spec.Services["Worker"].Replicas = 3
		Expect(p.c.Patch(ctx, dgd, client.MergeFrom(before))).To(Succeed())
		p.holds(p.namespace, "g-worker-0:2", map[string]string{"g": lacks, "b-other": lacks})
		for range 3 {
			uids := graphs.UIDs(p.pods(p.namespace))
			Expect(p.c.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "g-worker-0-1"}}, client.GracePeriodSeconds(0))).To(Succeed())
			p.until("the replica is there again, and nothing else", func() error {
				p.endPods(p.namespace)
				return graphs.AllNew(uids, p.pods(p.namespace), 2)
			})
			p.bindAll(2)
			p.holds(p.namespace, "g-worker-0:2", nil)
		}
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
		if pinned := gang.PinnedHost(pod); taken[name] || pinned != "" && pinned != name {
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
