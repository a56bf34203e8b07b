// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A gang whose place is known", func() {
	It("is created there without the gate and without a patch, and so are further replicas", func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		dgd := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		Expect(p.open(2)).To(Equal(2))
		p.placed(dgd, metav1.ConditionTrue, "")
		before := dgd.DeepCopy()
		dgd.Spec.Services["Worker"].Replicas = ptr.To[int32](3)
		Expect(p.c.Patch(ctx, dgd, client.MergeFrom(before))).To(Succeed()) // an update would conflict with the operator's writes
		p.until("the third replica waits gated", func() error {
			pods := p.pods(p.namespace)
			if len(pods) != 6 {
				return fmt.Errorf("there are %d pods", len(pods))
			}
			return nil
		})
		Expect(p.all("~-!")).To(BeEmpty(), "patches, deletions and refused creates of pods")
		gated := 0
		for _, pod := range p.pods(p.namespace) {
			if render.GateClosed(&pod) {
				gated++
			}
		}
		Expect(gated).To(Equal(2), "pods of the replica that has no place")
	}, SpecTimeout(suite.Timeout()))

	It("goes to one zone, also over three components", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		Expect(p.c.Create(ctx, p.graph("zone", three()))).To(Succeed())
		Expect(p.open(4)).To(Equal(4))
		Expect(p.all("+=~-!")).To(HaveLen(8), "creates and their answers alone")
	})

	type admission = func(pod *corev1.Pod, trial bool) error
	DescribeTable("is created gated where that place is not certain", func(ctx SpecContext, prepare func(*inPlaceWorld), admit admission, tried bool) {
		p := newInPlaceWorld(ctx, admit)
		if prepare != nil {
			prepare(p)
		}
		Expect(p.c.Create(ctx, p.graph("zone", three()))).To(Succeed())
		if tried {
			p.until("pods that were created in place are deleted", p.deleted)
		}
		Expect(p.open(4)).To(Equal(0), "pods that were created in place; %v", p.all("+=~-!"))
		Expect(p.all("~")).NotTo(BeEmpty(), "patches that release pods")
		Expect(len(p.all("-")) > 0).To(Equal(tried), "pods that were created in place and deleted")
	},
		Entry("a quota counts pods", SpecTimeout(suite.Timeout()), func(p *inPlaceWorld) { p.hasQuota(corev1.ResourcePods) }, nil, false),
		Entry("a quota counts requests", SpecTimeout(suite.Timeout()), func(p *inPlaceWorld) { p.hasQuota("requests.nvidia.com/gpu") }, nil, false),
		Entry("the API server cannot say what it stores", SpecTimeout(suite.Timeout()), nil, func(_ *corev1.Pod, trial bool) error {
			if trial {
				return errors.New("admission webhook does not support dry run")
			}
			return nil
		}, false),
		Entry("a create is refused half way", SpecTimeout(suite.Timeout()), func(p *inPlaceWorld) { p.refuse = "g-c-0" }, nil, true),
		Entry("the API server stores more than was planned", SpecTimeout(suite.Timeout()), nil, func(pod *corev1.Pod, trial bool) error {
			if pod.Name == "g-b-0-1" && !trial && !render.GateClosed(pod) {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
			}
			return nil
		}, true),
	)

	It("is created gated where another controller's gate holds its pods", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		for _, trials := range []bool{true, false} {
			p := newInPlaceWorld(ctx, func(pod *corev1.Pod, trial bool) error {
				if trials || !trial {
					pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/queue"})
				}
				return nil
			})
			want := map[bool]int{true: 4, false: 5}[trials] // a pod shows the gate where it was not foreseen
			Expect(p.c.Create(ctx, p.graph("zone", three()))).To(Succeed())
			p.until("all pods are behind both gates, and their creates are answered", func() error {
				if answered := p.all("="); len(answered) < want {
					return fmt.Errorf("%d creates are answered", len(answered))
				}
				pods := p.pods(p.namespace)
				for i := range pods {
					if len(pods[i].Spec.SchedulingGates) != 2 || pods[i].DeletionTimestamp != nil {
						return fmt.Errorf("pod %s has the gates %v", pods[i].Name, pods[i].Spec.SchedulingGates)
					}
				}
				if len(pods) != 4 {
					return fmt.Errorf("there are %d pods", len(pods))
				}
				return nil
			})
			p.stop()
			Expect(len(p.all("="))).To(And(BeNumerically(">=", want), BeNumerically("<=", 4+4*(want-4))), "%v", p.all("+=~-!"))
			p.stop = func() {}
		}
	})

	DescribeTable("leaves nothing of a gang of which a create was refused, at once", func(ctx SpecContext, replicas int, undeleted bool) {
		p := newInPlaceWorld(ctx, func(pod *corev1.Pod, trial bool) error {
			if !trial && pod.Name == "g-c-0" {
				return forbidden(pod)
			}
			return nil
		})
		var first sync.Once
		p.ends = func(pod client.Object) (err error) {
			if undeleted && pod.GetName() == "g-a-0" {
				first.Do(func() { err = apierrors.NewTooManyRequests("the API server has no time", 1) })
			}
			return err
		}
		components := three()
		components["B"].Replicas = ptr.To(int32(replicas))
		Expect(p.c.Create(ctx, p.graph("zone", components))).To(Succeed())
		p.until("its pods are deleted", func() error { // and created gated, and given back when it is not their turn, again and again
			if deleted := p.all("-"); len(deleted) == 0 {
				return errors.New("none is deleted")
			}
			pods := p.pods(p.namespace)
			for i := range pods {
				if !render.GateClosed(&pods[i]) {
					return fmt.Errorf("pod %s is open", pods[i].Name)
				}
			}
			return nil
		})
	},
		Entry("with one replica of each component", SpecTimeout(suite.Timeout()), 1, false),
		Entry("with a replica that follows", SpecTimeout(suite.Timeout()), 2, false),
		Entry("with a pod that cannot be deleted at first", SpecTimeout(suite.Timeout()), 1, true),
	)

	DescribeTable("is recreated gated, all of it, when", func(ctx SpecContext, prepare func(p *inPlaceWorld, first *sync.Once)) {
		p, once := newInPlaceWorld(ctx, nil), &sync.Once{}
		prepare(p, once)
		Expect(p.c.Create(ctx, p.graph("zone", three()))).To(Succeed())
		p.until("pods that were created in place are deleted", p.deleted)
		Expect(p.open(4)).To(Equal(0), "pods that were created in place; %v", p.all("+=~-!"))
	},
		Entry("a create has an error for an answer, and is written", SpecTimeout(suite.Timeout()), func(p *inPlaceWorld, first *sync.Once) {
			p.stored = func(pod *corev1.Pod) (err error) {
				if pod.Name == "g-c-0" {
					first.Do(func() { err = apierrors.NewTimeoutError("the API server has no time", 1) })
				}
				return err
			}
		}),
		Entry("a create is refused, and what exists cannot be deleted at first", SpecTimeout(suite.Timeout()), func(p *inPlaceWorld, first *sync.Once) {
			p.refuse = "g-c-0"
			p.ends = func(pod client.Object) (err error) {
				if pod.GetName() == "g-a-0" {
					first.Do(func() { err = apierrors.NewTooManyRequests("the API server has no time", 1) })
				}
				return err
			}
		}),
	)

	It("is completed when a pod of it is gone at once", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		var once sync.Once
		p.stored = func(pod *corev1.Pod) (err error) {
			if pod.Name == "g-a-0" {
				once.Do(func() { err = p.c.Delete(ctx, pod, client.GracePeriodSeconds(0)) })
			}
			return err
		}
		Expect(p.c.Create(ctx, p.graph("zone", three()))).To(Succeed())
		p.until("the pod has a successor of a later attempt", func() error {
			next := &corev1.Pod{}
			if err := p.c.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "g-a-0"}, next); err != nil || render.AttemptOf(next) < 2 {
				return fmt.Errorf("it is of attempt %d: %w", render.AttemptOf(next), err)
			}
			return nil
		})
		p.open(4)
		zones, gangs := map[string]bool{}, map[string]bool{}
		for _, pod := range p.pods(p.namespace) {
			zones[pod.Spec.NodeSelector[corev1.LabelTopologyZone]], gangs[pod.Annotations[render.AnnotationGang]] = true, true
			if pod.Name == "g-a-0" { // a late event of its predecessor may end one offer
				Expect(render.AttemptOf(&pod)).To(BeElementOf(int32(2), int32(3)), "%v", p.all("+=~-!"))
			}
		}
		Expect(zones).To(HaveLen(1))
		Expect(gangs).To(HaveLen(1))
	})

	It("leaves a pod of the user's alone that has the name of its first one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		taken := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "g-a-0"}}
		taken.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/app:1"}}
		Expect(p.c.Create(ctx, taken)).To(Succeed())
		Expect(p.c.Create(ctx, p.graph("zone", three()))).To(Succeed())
		p.until("its name was tried twice", func() error {
			if tried := p.all("!"); len(tried) < 2 {
				return fmt.Errorf("refused creates: %v", tried)
			}
			return nil
		})
		live := &corev1.Pod{}
		Expect(p.c.Get(ctx, client.ObjectKeyFromObject(taken), live)).To(Succeed())
		Expect(live.UID).To(Equal(taken.UID))
		Expect(live.DeletionTimestamp).To(BeNil())
		Expect(p.all("-")).NotTo(ContainElement("-g-a-0"), "%v", p.all("+=~-!"))
	})

	It("is recreated in place while another replica cannot be created", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		taken := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "g-worker-1"}}
		taken.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/app:1"}}
		Expect(p.c.Create(ctx, taken)).To(Succeed())
		Expect(p.c.Create(ctx, p.graph("", graphs.Components{"Worker": graphs.Worker(2, 1, 8, "rack")}))).To(Succeed())
		serves := func(former types.UID) (live *corev1.Pod) {
			p.until("the first replica is created in place", func() error {
				live = &corev1.Pod{}
				if err := p.c.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "g-worker-0"}, live); err != nil {
					return err
				}
				if live.UID == former || render.GateClosed(live) {
					return fmt.Errorf("pod %s has the UID %s and the gates %v", live.Name, live.UID, live.Spec.SchedulingGates)
				}
				return nil
			})
			return live
		}
		first := serves("")
		p.until("the creation of the other replica is refused", func() error {
			if tried := p.all("!"); len(tried) < 2 {
				return fmt.Errorf("refused creates: %v", tried)
			}
			return nil
		})
		Expect(p.c.Delete(ctx, first, client.GracePeriodSeconds(0))).To(Succeed())
		next := serves(first.UID)
		Expect(render.AttemptOf(next)).To(BeElementOf(int32(2), int32(3)), "%v", p.all("+=~-!"))
	})

	It("is recreated at the next attempt when another operator began it and did not finish", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		p.stop()
		dgd := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		uid := p.diesAfter("g-worker-0-0").UID
		p.start()
		p.until("both pods are of a later attempt", func() error { return p.ofAttempt(2, uid) })
	})

	It("is deleted where its GraphPlacement has a later attempt, and does not count", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		dgd := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		Expect(p.open(2)).To(Equal(2))
		uid := p.pods(p.namespace)[0].UID
		record := &trellisv1alpha1.GraphPlacement{}
		Expect(p.c.Get(ctx, client.ObjectKeyFromObject(dgd), record)).To(Succeed())
		record.Spec.Gangs[0].Components[0].Places[0].Attempt = 7
		Expect(p.c.Update(ctx, record)).To(Succeed())
		p.until("its pods are of the recorded attempt", func() error { return p.ofAttempt(7, uid) })
	})

	DescribeTable("of several components is completed, or evicted as a unit, when another operator created one of them",
		func(ctx SpecContext, room bool) {
			p := newInPlaceWorld(ctx, nil)
			p.stop()
			p.change = func(o *Options) { o.RequeueAfter = time.Second }
			dgd := p.graph("zone", three())
			Expect(p.c.Create(ctx, dgd)).To(Succeed())
			first := p.diesAfter("g-a-0")
			zone := first.Spec.NodeSelector[corev1.LabelTopologyZone]
			if !room {
				for _, host := range []string{"0", "1"} {
					node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.namespace + "-" + zone + host}}
					Expect(p.c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
				}
			}
			p.start()
			p.until("all of it is in one zone", func() error {
				pods := p.pods(p.namespace)
				for _, pod := range pods {
					if in := pod.Spec.NodeSelector[corev1.LabelTopologyZone]; render.GateClosed(&pod) || (in == zone) != room {
						return fmt.Errorf("pod %s is in zone %q, gated %v", pod.Name, in, render.GateClosed(&pod))
					}
				}
				if len(pods) != 4 {
					return fmt.Errorf("there are %d pods", len(pods))
				}
				return nil
			})
			live := &corev1.Pod{}
			Expect(p.c.Get(ctx, client.ObjectKeyFromObject(first), live)).To(Succeed())
			Expect(live.UID == first.UID).To(Equal(room), "what existed stays only with the rest")
		},
		Entry("with capacity for the rest", SpecTimeout(suite.Timeout()), true),
		Entry("without", SpecTimeout(suite.Timeout()), false),
	)
})
