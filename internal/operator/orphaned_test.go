// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// orphan deletes a deployment with --cascade=orphan, and plays the garbage collector: owner references go first, then the finalizer.
func (b *bare) orphan(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
	GinkgoHelper()
	Expect(b.c.Delete(b.ctx, dgd, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	for _, object := range b.children(dgd.Namespace) {
		bare := object.DeepCopyObject().(client.Object)
		bare.SetOwnerReferences(slices.DeleteFunc(bare.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == dgd.UID }))
		Expect(b.c.Patch(b.ctx, bare, client.MergeFrom(object))).To(Succeed())
	}
	Expect(b.c.Patch(b.ctx, dgd, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}

// children are what deployments of a namespace brought, but for pods.
func (b *bare) children(namespace string) []client.Object {
	GinkgoHelper()
	var out []client.Object
	for _, list := range everything() {
		Expect(b.c.List(b.ctx, list, client.InNamespace(namespace))).To(Succeed())
		items, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			out = append(out, item.(client.Object))
		}
	}
	return out
}

// uids of what is there, pods included, but for those whose names contain one of these.
func (b *bare) uids(namespace string, but ...string) string {
	GinkgoHelper()
	var out []string
	add := func(object client.Object) {
		if !slices.ContainsFunc(but, func(part string) bool { return strings.Contains(object.GetName(), part) }) {
			out = append(out, fmt.Sprintf("%T/%s=%s", object, object.GetName(), object.GetUID()))
		}
	}
	for _, object := range b.children(namespace) {
		add(object)
	}
	for _, pod := range b.pods(namespace) {
		add(&pod)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// owned explains why not everything in the namespace but for some belongs to the deployment.
func (b *bare) owned(dgd *nvidiav1alpha1.DynamoGraphDeployment, but ...string) error {
	GinkgoHelper()
	for _, object := range b.children(dgd.Namespace) {
		if !metav1.IsControlledBy(object, dgd) && !slices.Contains(but, object.GetName()) {
			return fmt.Errorf("%T %s belongs to %v", object, object.GetName(), object.GetOwnerReferences())
		}
	}
	return nil
}

func (b *bare) condition(dgd *nvidiav1alpha1.DynamoGraphDeployment, kind string) *metav1.Condition {
	GinkgoHelper()
	now := &nvidiav1alpha1.DynamoGraphDeployment{}
	Expect(b.c.Get(b.ctx, client.ObjectKeyFromObject(dgd), now)).To(Succeed())
	return meta.FindStatusCondition(now.Status.Conditions, kind)
}

var deletes = regexp.MustCompile(`kubectl delete -n (\S+) (\S+(?: \S+)*)$`)

// obey runs the command that a condition ends with, as kubectl would, and plays the garbage collector for the pods.
func (b *bare) obey(message string) []string {
	GinkgoHelper()
	command := deletes.FindStringSubmatch(message)
	Expect(command).NotTo(BeNil(), "no command in %q", message)
	names := strings.Fields(command[2])
	for _, name := range names {
		resource, name, _ := strings.Cut(name, "/")
		object, known := map[string]client.Object{
			"scalinggroups.trellis.dev": &trellisv1alpha1.ScalingGroup{}, "services": &corev1.Service{}, "serviceaccounts": &corev1.ServiceAccount{},
		}[resource]
		Expect(known).To(BeTrue(), "what is %q in %q?", resource, message)
		Expect(b.c.Get(b.ctx, client.ObjectKey{Namespace: command[1], Name: name}, object)).To(Succeed())
		Expect(b.c.Delete(b.ctx, object)).To(Succeed())
		for _, pod := range b.pods(command[1]) {
			if metav1.IsControlledBy(&pod, object) {
				Expect(client.IgnoreNotFound(b.c.Delete(b.ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
			}
		}
	}
	return names
}

// adopts has a deployment deleted with --cascade=orphan and created again with less in it, while the operator runs or is down.
func (b *bare) adopts(down bool) {
	GinkgoHelper()
	const orphans = nvidiav1alpha1.ConditionOrphansAdopted
	name := newNamespace(b.c)
	first := b.running(name)
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "somebodys", Labels: map[string]string{"nvidia.com/dynamo-graph-deployment-name": "g"}}}
	theirs.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	Expect(b.c.Create(b.ctx, theirs)).To(Succeed())
	before := b.uids(name)
	if down {
		b.stop()
	}
	b.orphan(first)
	second := deployment(name, graphs.Components{"Worker": graphs.Worker(2, 2, 8, ""), "Frontend": frontend()})
	Expect(b.c.Create(b.ctx, second)).To(Succeed())
	if down {
		b.start()
	}
	b.until("the second one has adopted the rest", func() error { return b.owned(second, "g-old", "g-old-pods", "somebodys") })
	b.until("what it has not is listed", func() error {
		if c := b.condition(second, orphans); c == nil || !strings.Contains(c.Message, "scalinggroups.trellis.dev/g-old services/g-old services/g-old-pods") || strings.Contains(c.Message, "somebodys") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	Expect(b.uids(name)).To(Equal(before), "something was recreated")
	b.obey(b.condition(second, orphans).Message)
	b.until("nothing is left to list", func() error {
		if c := b.condition(second, orphans); c != nil {
			return fmt.Errorf("%+v", c)
		}
		return b.belongs(second, "g-frontend g-worker", "g-frontend-0 g-frontend-1 g-worker-0-0 g-worker-0-1 g-worker-1-0 g-worker-1-1")
	})
}

var _ = DescribeTable("A deployment that is recreated after --cascade=orphan adopts what is there",
	func(ctx SpecContext, down bool) { newBare(ctx).adopts(down) },
	Entry("while the operator runs", SpecTimeout(suite.Timeout()), false),
	Entry("while the operator is down", SpecTimeout(suite.Timeout()), true),
)

var _ = Describe("A deployment that is recreated otherwise after --cascade=orphan", func() {
	It("names in every condition what is immutable and differs, and makes the new group after the command", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		namespace := newNamespace(b.c)
		first := deployment(namespace, graphs.Components{"Worker": graphs.Worker(1, 2, 8, "")})
		Expect(b.c.Create(ctx, first)).To(Succeed())
		b.until("the first one has its pods", func() error { return b.belongs(first, "g-worker", "g-worker-0-0 g-worker-0-1") })
		b.orphan(first)
		binding := &rbacv1.RoleBinding{}
		Expect(b.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "g-k8s-service-discovery-binding"}, binding)).To(Succeed())

		second := deployment(namespace, graphs.Components{"Worker": graphs.Worker(1, 1, 8, "")})
		second.Spec.Services["Worker"].Replicas = ptr.To[int32](1)
		Expect(b.c.Create(ctx, second)).To(Succeed())
		const cannot = "ScalingGroup g-worker of an earlier deployment of this name cannot be adopted: it is multinode and the component is not"
		for kind, want := range map[string]string{
			nvidiav1alpha1.ConditionOrphansAdopted: "kubectl delete -n " + namespace + " scalinggroups.trellis.dev/g-worker services/g-worker-pods",
			nvidiav1alpha1.ConditionPlaced:         cannot,
			nvidiav1alpha1.ConditionReady:          cannot,
		} {
			b.until(kind+" names it", func() error {
				if c := b.condition(second, kind); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, want) {
					return fmt.Errorf("%+v, want %q", c, want)
				}
				return nil
			})
		}
		Expect(b.condition(second, nvidiav1alpha1.ConditionPlaced).Reason).To(Equal(nvidiav1alpha1.ReasonCreationRefused))
		b.obey(b.condition(second, nvidiav1alpha1.ConditionOrphansAdopted).Message)
		b.until("the new one is made", func() error {
			if c := b.condition(second, nvidiav1alpha1.ConditionOrphansAdopted); c != nil {
				return fmt.Errorf("%+v", c)
			}
			return b.belongs(second, "g-worker", "g-worker-0")
		})
	})
})
