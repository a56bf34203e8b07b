// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	rightRack = "example.com/rack"
	wrongRack = "example.com/typo"
)

// rackKey changes the key of the level rack in the topology of the spec.
func (p *inPlaceWorld) rackKey(key string) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		topology := &grovev1alpha1.ClusterTopology{}
		if err := p.c.Get(p.ctx, client.ObjectKey{Name: p.namespace}, topology); err != nil {
			return err
		}
		topology.Spec.Levels[1].Key = key
		return p.c.Update(p.ctx, topology)
	})).To(Succeed())
}

// rackKeys are those of the scaling groups, by name.
func (p *inPlaceWorld) rackKeys() map[string]string {
	GinkgoHelper()
	groups, out := &trellisv1alpha1.ScalingGroupList{}, map[string]string{}
	Expect(p.c.List(p.ctx, groups, client.InNamespace(p.namespace))).To(Succeed())
	for i := range groups.Items {
		out[groups.Items[i].Name] = groups.Items[i].Spec.Topology.Levels[1].Key
	}
	return out
}

// says waits until a condition of a deployment has a status and contains texts.
func (p *inPlaceWorld) says(dgd *nvidiav1alpha1.DynamoGraphDeployment, kind, status string, texts ...string) {
	GinkgoHelper()
	p.until(fmt.Sprintf("%s is %s with %q", kind, status, texts), func() error {
		now := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := p.c.Get(p.ctx, client.ObjectKeyFromObject(dgd), now); err != nil {
			return err
		}
		c := meta.FindStatusCondition(now.Status.Conditions, kind)
		if c == nil || string(c.Status) != status {
			return fmt.Errorf("it is %+v", c)
		}
		for _, text := range texts {
			if !strings.Contains(c.Reason+": "+c.Message, text) {
				return fmt.Errorf("it says %s: %s", c.Reason, c.Message)
			}
		}
		return nil
	})
}

// waiting has a deployment wait, because the topology has a wrong key for the racks.
func (p *inPlaceWorld) waiting() *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	p.rackKey(wrongRack)
	dgd := p.graph("zone", graphs.Components{"A": graphs.Worker(1, 1, 2, "rack"), "B": graphs.Worker(1, 2, 2, "rack")})
	Expect(p.c.Create(p.ctx, dgd)).To(Succeed())
	p.says(dgd, "Placed", "False", "NoDomain: ", "no node has label "+wrongRack)
	Expect(p.rackKeys()).To(Equal(map[string]string{"g-a": wrongRack, "g-b": wrongRack}))
	return dgd
}

// placedByRightKey waits until all pods are released and carry the right key, as their groups do.
func (p *inPlaceWorld) placedByRightKey(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
	GinkgoHelper()
	p.open(3)
	p.says(dgd, "Placed", "True")
	Expect(p.rackKeys()).To(Equal(map[string]string{"g-a": rightRack, "g-b": rightRack}))
	for _, pod := range p.pods(p.namespace) {
		Expect(pod.Annotations[render.AnnotationLevels]).To(ContainSubstring(rightRack), pod.Name)
		Expect(pod.Labels).To(HaveKey(render.LabelTopologyPrefix+"rack"), pod.Name)
	}
}

var _ = Describe("A deployment whose ClusterTopology gets another key", func() {
	It("follows it while no pod is placed; afterwards it keeps the former key, and its status names both", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		dgd := p.waiting()
		p.rackKey(rightRack)
		p.placedByRightKey(dgd)

		By("the key is changed again, and a replica is added")
		p.rackKey("example.com/other")
		p.says(dgd, "TopologyLevelsAvailable", "False", "'rack'", rightRack, "example.com/other")
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := p.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd); err != nil {
				return err
			}
			dgd.Spec.Services["B"].Replicas = ptr.To[int32](2)
			return p.c.Update(ctx, dgd)
		})).To(Succeed())
		p.says(dgd, "Placed", "False", "LevelGone", "example.com/other", rightRack, "restore it, or recreate the deployment")
		Expect(p.rackKeys()).To(Equal(map[string]string{"g-a": rightRack, "g-b": rightRack}))
	})

	It("gets one key for all its components, also if the operator ended between two writes", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		dgd := p.waiting()
		p.stop()
		p.rackKey(rightRack)
		written := &trellisv1alpha1.ScalingGroup{}
		Expect(p.c.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "g-b"}, written)).To(Succeed())
		written.Spec.Topology.Levels[1].Key = rightRack
		Expect(p.c.Update(ctx, written, client.FieldOwner(render.FieldOwner))).To(Succeed())
		p.start()
		p.placedByRightKey(dgd)
	})
})
