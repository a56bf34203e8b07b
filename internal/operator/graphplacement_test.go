// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/recorded"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// recordOf is the GraphPlacement of a deployment; nil while there is none.
func (p *inPlaceWorld) recordOf(ctx context.Context, name string) (*trellisv1alpha1.GraphPlacement, error) {
	placement := &trellisv1alpha1.GraphPlacement{}
	err := p.c.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, placement)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return placement, err
}

// recorded waits until the record of a deployment says what its pods show.
func (p *inPlaceWorld) recorded(dgd *nvidiav1alpha1.DynamoGraphDeployment) *trellisv1alpha1.GraphPlacement {
	GinkgoHelper()
	var placement *trellisv1alpha1.GraphPlacement
	p.until("the GraphPlacement says what the pods show", func() (err error) {
		groups := &trellisv1alpha1.ScalingGroupList{}
		Expect(p.c.List(p.ctx, groups, client.InNamespace(p.namespace))).To(Succeed())
		pods := p.pods(p.namespace)
		if placement, err = p.recordOf(p.ctx, dgd.Name); err != nil || placement == nil {
			return fmt.Errorf("it is not there: %w", err)
		}
		return recorded.Check(&nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: dgd.ObjectMeta}, pointers(groups.Items), pointers(pods), placement)
	})
	return placement
}

func pointers[T any](list []T) (out []*T) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// recordWatch notes pods that are created in a gang that is not recorded.
type recordWatch struct {
	p  *inPlaceWorld
	mu sync.Mutex
	// unrecorded are such pods, and created counts all that were created with a gang.
	unrecorded []string
	created    int
}

func (w *recordWatch) admit(pod *corev1.Pod, trial bool) error {
	of := pod.Annotations[render.AnnotationGang]
	if trial || of == "" {
		return nil
	}
	placement, err := w.p.recordOf(context.Background(), pod.Labels[render.LabelGraph])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.created++
	record := &assignment.Record{}
	if placement != nil {
		record = assignment.Decode(&placement.Spec)
	}
	ordinal, index, _ := render.ReplicaOf(pod)
	key := gang.Key{Component: pod.Labels[render.LabelComponent], Ordinal: int(ordinal)}
	hosts := record.Gangs[of].Places[key].Hosts
	if int(index) >= len(hosts) || hosts[index] != gang.PinnedHost(pod) {
		w.unrecorded = append(w.unrecorded, fmt.Sprintf("%s on %q: %v, hosts %q (%v)", pod.Name, gang.PinnedHost(pod), key, hosts, err))
	}
	return nil
}

func (p *inPlaceWorld) podUIDs() map[string]string {
	out := map[string]string{}
	for _, pod := range p.pods(p.namespace) {
		out[pod.Name] = string(pod.UID)
	}
	return out
}

var _ = Describe("The record of a deployment", func() {
	It("is written before its pods are created, with their hosts", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := &recordWatch{}
		w.p = newInPlaceWorld(ctx, w.admit)
		dgd := w.p.graph("zone", three())
		Expect(w.p.c.Create(ctx, dgd)).To(Succeed())
		w.p.open(4)
		w.p.recorded(dgd)
		w.mu.Lock()
		defer w.mu.Unlock()
		Expect(w.unrecorded).To(BeEmpty())
		Expect(w.created).To(Equal(4), "pods that were created in place")
	})

	DescribeTable("numbers the host names of a replica, which differ from those of its former pods", func(ctx SpecContext, gated bool) {
		p := newInPlaceWorld(ctx, nil)
		if gated {
			p.hasQuota(corev1.ResourcePods)
		}
		Expect(p.c.Create(ctx, p.graph("zone", graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")}))).To(Succeed())
		p.open(2)
		former := map[string]string{}
		for range 3 {
			p.until("its pods have new host names, of their attempt", func() error {
				pods := p.pods(p.namespace)
				for i := range pods {
					pod := &pods[i]
					leader := ""
					for _, env := range pod.Spec.Containers[0].Env {
						if env.Name == framework.EnvLeaderAddress {
							leader, _, _ = strings.Cut(env.Value, ".")
						}
					}
					if pod.DeletionTimestamp != nil || former[leader] != "" || former[pod.Spec.Hostname] != "" ||
						render.AttemptOf(pod) != render.HostAttempt(pod) || pod.Name == "g-a-0-0" && leader != pod.Spec.Hostname {
						return fmt.Errorf("pod %s has attempt %d, host name %s and the leader %s", pod.Name, render.AttemptOf(pod),
							pod.Spec.Hostname, leader)
					}
				}
				if len(pods) != 2 {
					return fmt.Errorf("%d pods", len(pods))
				}
				return nil
			})
			for _, pod := range p.pods(p.namespace) {
				former[pod.Spec.Hostname] = pod.Name
			}
			lost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "g-a-0-1"}}
			Expect(p.c.Delete(ctx, lost, client.GracePeriodSeconds(0))).To(Succeed())
		}
	},
		Entry("created in place", SpecTimeout(suite.Timeout()), false),
		Entry("created gated", SpecTimeout(suite.Timeout()), true),
	)

	It("is written again when it is deleted or edited, and no pod restarts", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		dgd := p.graph("zone", graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		p.open(2)
		first, before := p.recorded(dgd), p.podUIDs()

		By("it is deleted")
		Expect(p.c.Delete(ctx, first)).To(Succeed())
		second := p.recorded(dgd)
		Expect(second.UID).NotTo(Equal(first.UID))

		By("it is edited: the gang is recorded elsewhere, and a replica that does not exist")
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			placement, err := p.recordOf(ctx, dgd.Name)
			if err != nil {
				return err
			}
			placement.Spec.Domains[0].Name = "moon"
			placement.Spec.Bound = append(placement.Spec.Bound, trellisv1alpha1.ComponentPlaces{
				Component: "A", Places: []trellisv1alpha1.ReplicaPlaces{{Replicas: "7", Attempt: 3}},
			})
			return p.c.Update(ctx, placement)
		})).To(Succeed())
		third := p.recorded(dgd)
		Expect(third.Generation).To(BeNumerically(">", second.Generation+1))

		By("the operator is restarted while there is none")
		p.stop()
		Expect(p.c.Delete(ctx, third)).To(Succeed())
		p.start()
		p.recorded(dgd)
		Expect(p.podUIDs()).To(Equal(before))
		Expect(p.all("-")).To(BeEmpty(), "pods that were deleted")
	})

	It("of a later attempt recreates a replica of which nothing else changes", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		dgd := p.graph("zone", graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		p.open(2)
		p.bindAll(2)
		p.until("all is bound, Ready and reported", func() error {
			placement, groups := p.recorded(dgd), &trellisv1alpha1.ScalingGroupList{}
			Expect(p.c.List(ctx, groups, client.InNamespace(p.namespace))).To(Succeed())
			if len(groups.Items) != 1 || groups.Items[0].Status.ReadyReplicas != 1 || len(placement.Spec.Gangs) > 0 {
				return fmt.Errorf("%s, with the record %s", shown(groups.Items), shown(placement.Spec))
			}
			return nil
		})
		before := p.podUIDs()
		<-time.After(2 * time.Second) // later events of all that

		By("another operator records a later attempt")
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			placement, err := p.recordOf(ctx, dgd.Name)
			if err != nil {
				return err
			}
			placement.Spec.Bound[0].Places[0].Attempt++
			return p.c.Update(ctx, placement)
		})).To(Succeed())
		p.until("its pods are deleted", func() error { // no kubelet ends them
			for _, pod := range p.pods(p.namespace) {
				if pod.DeletionTimestamp == nil && before[pod.Name] == string(pod.UID) {
					return fmt.Errorf("pod %s stays", pod.Name)
				}
			}
			return nil
		})
	})

	It("of an earlier deployment of its name says nothing of the next one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		for range 2 { // nothing collects garbage here
			dgd := p.graph("zone", graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
			Expect(p.c.Create(ctx, dgd)).To(Succeed())
			p.open(2)
			placement := p.recorded(dgd)
			Expect(placement.Spec.DeploymentUID).To(Equal(string(dgd.UID)))
			Expect(placement.OwnerReferences).To(HaveLen(1))
			Expect(placement.OwnerReferences[0].UID).To(Equal(dgd.UID))
			Expect(assignment.Decode(&placement.Spec).Gangs).To(HaveLen(1))
			Expect(p.c.Delete(ctx, dgd)).To(Succeed())
		}
	})
})
