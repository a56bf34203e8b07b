// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// bare is an API server with the whole operator and nothing else: no garbage collector, no scheduler, no kubelets.
type bare struct {
	ctx    context.Context
	config *rest.Config
	c      client.Client
	stop   func()
	// newClient makes the operator's client.
	newClient client.NewClientFunc
	// change changes the operator's settings; nil: they stay.
	change func(*Options)
}

func newBare(ctx context.Context) *bare {
	GinkgoHelper()
	return newBareWith(ctx, client.New, nil)
}

func newBareWith(ctx context.Context, newClient client.NewClientFunc, change func(*Options)) *bare {
	GinkgoHelper()
	return newBareOn(ctx, shared, newClient, change)
}

// newBareOn is the same on another API server.
func newBareOn(ctx context.Context, config *rest.Config, newClient client.NewClientFunc, change func(*Options)) *bare {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	c, err := client.New(config, client.Options{Scheme: NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	b := &bare{ctx: ctx, config: config, c: c, newClient: newClient, change: change}
	b.start()
	DeferCleanup(func() { b.stop() })
	return b
}

// install installs the definitions in a directory, with a server that converts.
func install(config *rest.Config, dir string) {
	GinkgoHelper()
	server := conversion.Serve()
	DeferCleanup(server.Close)
	Expect(server.Install(config, dir)).To(Succeed())
}

// start runs the operator until b.stop.
func (b *bare) start() {
	options := Options{
		MetricsAddress: "0", ProbeAddress: "0", Namespace: "default", QPS: 500, Burst: 1000, Provider: specs.Auto,
		RequeueAfter: scheduler.DefaultRequeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, NewClient: b.newClient,
	}
	if b.change != nil {
		b.change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		err := Run(ctx, rights.Of("operator").Record(b.config, options.Namespace), options)
		if ctx.Err() != nil {
			err = nil // the end was asked for
		}
		done <- err
	}()
	b.stop = func() {
		cancel()
		Expect(<-done).To(Succeed(), "the operator ended")
	}
}

// betweenLooks is how long a spec waits until it looks again.
const betweenLooks = 50 * time.Millisecond

func (b *bare) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(b.ctx, look).WithPolling(betweenLooks).Should(Succeed(), func() string { return "waiting until " + what + "\n" + b.describe() })
}

// describe is what one would want to see of a test that failed.
func (b *bare) describe() string {
	var out strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, list := range append(everything(), &nvidiav1alpha1.DynamoGraphDeploymentList{}, &trellisv1alpha1.GraphPlacementList{}, &corev1.PodList{}) {
		_ = b.c.List(ctx, list)
		items, _ := meta.ExtractList(list)
		for _, item := range items {
			object := item.(client.Object)
			if object.GetNamespace() != "" && !strings.HasPrefix(object.GetNamespace(), "kube-") {
				fmt.Fprintf(&out, "%T %s/%s %s deleting=%v owners=%v\n", object, object.GetNamespace(), object.GetName(), object.GetUID(), object.GetDeletionTimestamp() != nil, object.GetOwnerReferences())
			}
			switch o := object.(type) {
			case *nvidiav1alpha1.DynamoGraphDeployment:
				fmt.Fprintf(&out, "  %+v\n", o.Status.Conditions)
			case *trellisv1alpha1.GraphPlacement:
				fmt.Fprintf(&out, "  %s\n", shown(o.Spec))
			case *corev1.Pod:
				fmt.Fprintf(&out, "  attempt=%d gated=%v selector=%v node=%s\n", render.AttemptOf(o), render.GateClosed(o), o.Spec.NodeSelector, o.Spec.NodeName)
			}
		}
	}
	return out.String()
}

// shown is an object as JSON.
func shown(o any) string {
	text, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func (b *bare) pods(namespace string) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(b.c.List(b.ctx, pods, client.InNamespace(namespace))).To(Succeed())
	return pods.Items
}

// everything is what a deployment may bring, but for pods.
func everything() []client.ObjectList {
	return []client.ObjectList{
		&trellisv1alpha1.ScalingGroupList{}, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	}
}

// belongs explains why not everything in the namespace belongs to the deployment of today, or why it has not these scaling groups and pods.
func (b *bare) belongs(dgd *nvidiav1alpha1.DynamoGraphDeployment, groups, pods string) error {
	GinkgoHelper()
	var names []string
	uids := map[string]bool{}
	for _, list := range everything() {
		Expect(b.c.List(b.ctx, list, client.InNamespace(dgd.Namespace))).To(Succeed())
		items, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			object := item.(client.Object)
			if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != dgd.UID {
				return fmt.Errorf("%T %s is of the earlier deployment", object, object.GetName())
			}
			if sg, ok := item.(*trellisv1alpha1.ScalingGroup); ok {
				names = append(names, sg.Name)
				uids[string(sg.UID)] = true
			}
		}
	}
	if got := strings.Join(names, " "); got != groups {
		return fmt.Errorf("there are the groups %q, want %q", got, groups)
	}
	names = nil
	for _, pod := range b.pods(dgd.Namespace) {
		if !uids[string(metav1.GetControllerOf(&pod).UID)] {
			return fmt.Errorf("pod %s is of an earlier group", pod.Name)
		}
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != pods {
		return fmt.Errorf("there are the pods %q, want %q", got, pods)
	}
	return nil
}

// endPods plays the kubelets of pods that are being deleted.
func (b *bare) endPods(namespace string) {
	GinkgoHelper()
	for _, pod := range b.pods(namespace) {
		if pod.DeletionTimestamp != nil {
			Expect(client.IgnoreNotFound(b.c.Delete(b.ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
		}
	}
}

func deployment(namespace string, components graphs.Components) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}, Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: components},
	}
}

func frontend() *nvidiav1alpha1.ServiceSpec {
	s := graphs.Frontend(2)
	s.ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
	return s
}

// recreate has a deployment deleted and created again with less in it, while the operator runs or is down, and waits until all is of the second one.
func (b *bare) recreate(down bool) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	namespace := newNamespace(b.c)
	first := b.running(namespace)
	if down {
		b.stop()
	}
	Expect(b.c.Delete(b.ctx, first)).To(Succeed())
	second := deployment(namespace, graphs.Components{"Worker": graphs.Worker(1, 2, 8, ""), "Frontend": frontend()})
	second.Spec.Services["Frontend"].Replicas = ptr.To[int32](1)
	Expect(b.c.Create(b.ctx, second)).To(Succeed())
	if down {
		b.start()
	}
	b.until("all is of the second one", func() error {
		b.endPods(namespace)
		return b.belongs(second, "g-frontend g-worker", "g-frontend-0 g-worker-0-0 g-worker-0-1")
	})
	return second
}

// running is a deployment with all its pods, of which one is on a node.
func (b *bare) running(namespace string) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := deployment(namespace, graphs.Components{"Worker": graphs.Worker(2, 2, 8, ""), "Frontend": frontend(), "Old": graphs.Worker(1, 2, 8, "")})
	Expect(b.c.Create(b.ctx, dgd)).To(Succeed())
	b.until("the first one has its pods", func() error {
		return b.belongs(dgd, "g-frontend g-old g-worker", "g-frontend-0 g-frontend-1 g-old-0-0 g-old-0-1 g-worker-0-0 g-worker-0-1 g-worker-1-0 g-worker-1-1")
	})
	runs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-frontend-0"}}
	node := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: newNode(b.c)}}
	Expect(b.c.SubResource("binding").Create(b.ctx, runs, node)).To(Succeed())
	return dgd
}

var _ = Describe("A deployment that is deleted and created again where no garbage collector runs", func() {
	It("comes up: the operator deletes what the first one owned, and recreates a group that is deleted by hand", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		second := b.recreate(false)
		By("a scaling group is deleted by hand: it is recreated, with new pods")
		Expect(b.c.Delete(ctx, &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: second.Namespace, Name: "g-worker"}})).To(Succeed())
		b.until("its pods are of the new group", func() error {
			b.endPods(second.Namespace)
			return b.belongs(second, "g-frontend g-worker", "g-frontend-0 g-worker-0-0 g-worker-0-1")
		})
	})

	It("comes up, too, when the operator was down meanwhile", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		newBare(ctx).recreate(true)
	})
})
