// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// An API server with Evictions of lifecycle.k8s.io. Their controller comes with Kubernetes 1.38; the specs play its part.
var _ = Describe("An Eviction of lifecycle.k8s.io", Ordered, func() {
	var config *rest.Config
	BeforeAll(func() {
		config = launchWith(filepath.Join("..", "..", "config", "crd", "bases"), withEvictions)
	})
	responding := func(ctx SpecContext) *inPlaceWorld {
		p := newInPlaceWorldOn(ctx, config, nil, "a", "b")
		p.stop()
		p.change = func(o *Options) { o.EvictionResponder = true }
		p.start()
		Expect(p.c.Create(ctx, p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")}))).To(Succeed())
		return p
	}

	It("moves the replica of its pod, and completes when the pod is gone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := responding(ctx)
		Expect(p.open(2)).To(Equal(2), "pods that are created in place")
		p.bindAll(2)
		former := p.pods(p.namespace)
		for i := range former {
			Expect(former[i].Spec.EvictionResponders).To(ConsistOf(
				corev1.EvictionResponder{Name: evictions.Responder, Priority: ptr.To[int32](10000)}))
		}
		eviction := p.evicts(&former[0])

		By("the successor serves")
		p.until("a successor in the other rack exists", func() error {
			if pods := p.pods(p.namespace); len(pods) != 4 {
				return fmt.Errorf("%d pods", len(pods))
			}
			return nil
		})
		p.reports(eviction, "moving Worker-0", false)
		p.bindAll(4)
		p.until("the replica is deleted as a unit", func() error {
			for _, pod := range p.pods(p.namespace) {
				if pod.Labels[render.LabelReplica] == "0" && pod.DeletionTimestamp == nil {
					return fmt.Errorf("pod %s stays", pod.Name)
				}
			}
			return nil
		})
		for i := range former { // no kubelet ends them
			Expect(client.IgnoreNotFound(p.c.Delete(ctx, &former[i], client.GracePeriodSeconds(0)))).To(Succeed())
		}
		p.reports(eviction, "the pod is gone or is being deleted", true)
	})

	It("that is canceled moves nothing", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := responding(ctx)
		p.open(2)
		p.bindAll(2)
		former := p.pods(p.namespace)
		eviction := p.evicts(&former[1])
		p.requested(&former[1], true)
		p.cancel(eviction)
		p.requested(&former[1], false)
		p.until("the replica is alone, and stays", func() error {
			for _, pod := range p.pods(p.namespace) {
				if pod.Labels[render.LabelReplica] != "0" {
					Expect(client.IgnoreNotFound(p.c.Delete(ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
					return errors.New("a successor exists")
				}
				if pod.DeletionTimestamp != nil {
					Fail("pod " + pod.Name + " is deleted")
				}
			}
			return nil
		})
	})

	It("of a replica that does not serve is left to the next responder", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := responding(ctx)
		p.open(2)
		p.reports(p.evicts(&p.pods(p.namespace)[0]), "does not serve", true)
	})
})

var _ = Describe("A LeaderWorkerSet with a responder to Evictions", func() {
	// The definition of the kind has no evictionResponders, and the operator deletes a set of which fields are dropped.
	It("is created without the responder", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		config := launchWith(filepath.Join("..", "..", "config", "crd", "bases"), withEvictions)
		crd, err := definitions.Load("lws/leaderworkerset.x-k8s.io_leaderworkersets.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(apiserver.Install(config, crd)).To(Succeed())
		p := newInPlaceWorldOn(ctx, config, nil, "a", "b")
		p.stop()
		p.change = func(o *Options) { o.EvictionResponder = true }
		p.start()
		dgd := p.graph("", graphs.Components{"Worker": graphs.Worker(1, 2, 8, "rack")})
		metav1.SetMetaDataAnnotation(&dgd.ObjectMeta, render.AnnotationWorkload, specs.LeaderWorkerSet)
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		p.until("the set exists, and all changes were accepted", func() error {
			sg := &trellisv1alpha1.ScalingGroup{}
			if err := p.c.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "g-worker"}, sg); err != nil {
				return err
			}
			sets := &unstructured.UnstructuredList{}
			sets.SetGroupVersionKind(lws.Kind)
			Expect(p.c.List(ctx, sets, client.InNamespace(p.namespace))).To(Succeed())
			if len(sets.Items) != 1 || sets.Items[0].GetDeletionTimestamp() != nil || !meta.IsStatusConditionTrue(sg.Status.Conditions, trellisv1alpha1.ConditionPodsInSync) {
				return fmt.Errorf("%d sets; %+v", len(sets.Items), sg.Status.Conditions)
			}
			return nil
		})
	})
})

// withEvictions has an API server serve Evictions.
func withEvictions(arguments *envtest.Arguments) {
	arguments.Append("runtime-config", "lifecycle.k8s.io/v1alpha1=true")
	arguments.Append("feature-gates", "EvictionRequestAPI=true")
}

// evicts creates an Eviction of a pod with the operator as its active responder.
func (p *inPlaceWorld) evicts(pod *corev1.Pod) *lifecyclev1alpha1.Eviction {
	GinkgoHelper()
	eviction := &lifecyclev1alpha1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec: lifecyclev1alpha1.EvictionSpec{Target: lifecyclev1alpha1.EvictionTarget{
			Pod: &lifecyclev1alpha1.EvictionPodReference{Name: pod.Name, UID: pod.UID},
		}},
	}
	Expect(p.c.Create(p.ctx, eviction)).To(Succeed())
	eviction.Status.Requesters = []lifecyclev1alpha1.Requester{{Name: "example.com/drain", Intent: lifecyclev1alpha1.RequesterIntentEviction}}
	for _, responder := range []corev1.EvictionResponder{
		{Name: evictions.Responder, Priority: ptr.To[int32](10000)},
		{Name: lifecyclev1alpha1.EvictionResponderImperativeEviction, Priority: ptr.To[int32](100)},
	} {
		eviction.Status.TargetResponders = append(eviction.Status.TargetResponders, lifecyclev1alpha1.TargetResponder{
			Name: responder.Name, Priority: responder.Priority, State: lifecyclev1alpha1.ResponderStateInactive,
		})
		eviction.Status.Responders = append(eviction.Status.Responders, lifecyclev1alpha1.ResponderStatus{Name: responder.Name})
	}
	eviction.Status.TargetResponders[0].State = lifecyclev1alpha1.ResponderStateActive
	eviction.Status.Responders[0].StartTime = ptr.To(metav1.NewTime(time.Now()))
	Expect(p.c.Status().Update(p.ctx, eviction)).To(Succeed())
	return eviction
}

// cancel withdraws the request behind an Eviction.
func (p *inPlaceWorld) cancel(eviction *lifecyclev1alpha1.Eviction) {
	GinkgoHelper()
	p.until("the Eviction is canceled", func() error {
		Expect(p.c.Get(p.ctx, client.ObjectKeyFromObject(eviction), eviction)).To(Succeed())
		eviction.Status.Requesters[0].Intent = lifecyclev1alpha1.RequesterIntentWithdrawn
		eviction.Status.TargetResponders[0].State = lifecyclev1alpha1.ResponderStateCanceled
		meta.SetStatusCondition(&eviction.Status.Conditions, metav1.Condition{
			Type: string(lifecyclev1alpha1.EvictionConditionFailed), Status: metav1.ConditionTrue,
			Reason: string(lifecyclev1alpha1.EvictionConditionReasonCanceledDueToNoRequesters),
		})
		return p.c.Status().Update(p.ctx, eviction)
	})
}

// reports waits until the operator reports a message in an Eviction, and whether it has completed.
func (p *inPlaceWorld) reports(eviction *lifecyclev1alpha1.Eviction, message string, completed bool) {
	GinkgoHelper()
	Eventually(p.ctx, func(g Gomega) {
		g.Expect(p.c.Get(p.ctx, client.ObjectKeyFromObject(eviction), eviction)).To(Succeed())
		status := eviction.Status.Responders[0]
		g.Expect(status.Name).To(Equal(evictions.Responder))
		g.Expect(status.HeartbeatTime).NotTo(BeNil())
		g.Expect(ptr.Deref(status.Message, "")).To(ContainSubstring(message))
		g.Expect(status.CompletionTime != nil).To(Equal(completed))
	}).Should(Succeed())
}

// requested waits until a pod has a request to move its replica, or none.
func (p *inPlaceWorld) requested(pod *corev1.Pod, want bool) {
	GinkgoHelper()
	p.until(fmt.Sprintf("a request is stored in the pod: %t", want), func() error {
		Expect(p.c.Get(p.ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if _, has := leaving.EvictionOf(pod); has != want {
			return fmt.Errorf("annotations %v", pod.Annotations)
		}
		return nil
	})
}
