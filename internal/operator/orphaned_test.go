// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// orphan deletes a deployment with --cascade=orphan, and plays the garbage collector: owner references go first, then the finalizer.
func (b *bare) orphan(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
	b.t.Helper()
	b.must(b.c.Delete(b.t.Context(), dgd, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	for _, object := range b.children(dgd.Namespace) {
		bare := object.DeepCopyObject().(client.Object)
		bare.SetOwnerReferences(slices.DeleteFunc(bare.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == dgd.UID }))
		b.must(b.c.Patch(b.t.Context(), bare, client.MergeFrom(object)))
	}
	b.must(b.c.Patch(b.t.Context(), dgd, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}

// children are what deployments of a namespace brought, but for pods.
func (b *bare) children(namespace string) []client.Object {
	b.t.Helper()
	var out []client.Object
	for _, list := range everything() {
		b.must(b.c.List(b.t.Context(), list, client.InNamespace(namespace)))
		items, err := meta.ExtractList(list)
		b.must(err)
		for _, item := range items {
			out = append(out, item.(client.Object))
		}
	}
	return out
}

// uids of what is there, pods included, but for those whose names contain one of these.
func (b *bare) uids(namespace string, but ...string) string {
	b.t.Helper()
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

// owned says why not everything in the namespace but for some belongs to the deployment.
func (b *bare) owned(dgd *nvidiav1alpha1.DynamoGraphDeployment, but ...string) error {
	b.t.Helper()
	for _, object := range b.children(dgd.Namespace) {
		if !metav1.IsControlledBy(object, dgd) && !slices.Contains(but, object.GetName()) {
			return fmt.Errorf("%T %s belongs to %v", object, object.GetName(), object.GetOwnerReferences())
		}
	}
	return nil
}

func (b *bare) condition(dgd *nvidiav1alpha1.DynamoGraphDeployment, kind string) *metav1.Condition {
	b.t.Helper()
	now := &nvidiav1alpha1.DynamoGraphDeployment{}
	b.must(b.c.Get(b.t.Context(), client.ObjectKeyFromObject(dgd), now))
	return meta.FindStatusCondition(now.Status.Conditions, kind)
}

var deletes = regexp.MustCompile(`kubectl delete -n (\S+) (\S+(?: \S+)*)$`)

// obey runs the command that a condition ends with, as kubectl would, and plays the garbage collector for the pods.
func (b *bare) obey(message string) []string {
	b.t.Helper()
	command := deletes.FindStringSubmatch(message)
	if command == nil {
		b.t.Fatalf("no command in %q", message)
	}
	names := strings.Fields(command[2])
	for _, name := range names {
		resource, name, _ := strings.Cut(name, "/")
		object, known := map[string]client.Object{
			"scalinggroups.trellis.dev": &trellisv1alpha1.ScalingGroup{}, "services": &corev1.Service{}, "serviceaccounts": &corev1.ServiceAccount{},
		}[resource]
		if !known {
			b.t.Fatalf("what is %q in %q?", resource, message)
		}
		b.must(b.c.Get(b.t.Context(), client.ObjectKey{Namespace: command[1], Name: name}, object))
		b.must(b.c.Delete(b.t.Context(), object))
		for _, pod := range b.pods(command[1]) {
			if metav1.IsControlledBy(&pod, object) {
				b.must(client.IgnoreNotFound(b.c.Delete(b.t.Context(), &pod, client.GracePeriodSeconds(0))))
			}
		}
	}
	return names
}

// A deployment is deleted with --cascade=orphan and created again: it adopts what is there, and no pod is replaced. What it does not bring is listed with
// one command. While the operator runs, and while it does not.
func TestRecreatedAfterOrphaning(t *testing.T) {
	b := newBare(t)
	node, seen, missed := newNode(t, b.c), newNamespace(t, b.c), newNamespace(t, b.c)
	const orphans = nvidiav1alpha1.ConditionOrphansAdopted
	for _, name := range []string{seen, missed} {
		t.Logf("while the operator runs: %t", name == seen)
		first := deployment(name, graphs.Services{"Worker": graphs.Worker(2, 2, 8, ""), "Frontend": frontend(), "Old": graphs.Worker(1, 2, 8, "")})
		b.must(b.c.Create(t.Context(), first))
		b.until("the first one has its pods", time.Minute, func() error {
			return b.belongs(first, "g-frontend g-old g-worker", "g-frontend-0 g-frontend-1 g-old-0-0 g-old-0-1 g-worker-0-0 g-worker-0-1 g-worker-1-0 g-worker-1-1")
		})
		runs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "g-frontend-0"}}
		b.must(b.c.SubResource("binding").Create(t.Context(), runs, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}))
		theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "somebodys", Labels: map[string]string{"nvidia.com/dynamo-graph-deployment-name": "g"}}}
		theirs.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		b.must(b.c.Create(t.Context(), theirs))
		before := b.uids(name)

		if name == missed {
			b.stop()
		}
		b.orphan(first)
		second := deployment(name, graphs.Services{"Worker": graphs.Worker(2, 2, 8, ""), "Frontend": frontend()})
		b.must(b.c.Create(t.Context(), second))
		if name == missed {
			b.start()
		}
		left := []string{"g-old", "g-old-pods", "somebodys"}
		b.until("the second one has adopted the rest", time.Minute, func() error { return b.owned(second, left...) })
		b.until("what it has not is listed", time.Minute, func() error {
			if c := b.condition(second, orphans); c == nil || !strings.Contains(c.Message, "scalinggroups.trellis.dev/g-old services/g-old services/g-old-pods") || strings.Contains(c.Message, "somebodys") {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		if after := b.uids(name); after != before {
			t.Errorf("there was\n%s\nthere is\n%s", before, after)
		}
		b.obey(b.condition(second, orphans).Message)
		b.until("nothing is left to list", time.Minute, func() error {
			if c := b.condition(second, orphans); c != nil {
				return fmt.Errorf("%+v", c)
			}
			return b.belongs(second, "g-frontend g-worker", "g-frontend-0 g-frontend-1 g-worker-0-0 g-worker-0-1 g-worker-1-0 g-worker-1-1")
		})
	}
}

// What is immutable differs: every condition names it, and the new group is made after the command.
func TestRecreatedOtherwiseAfterOrphaning(t *testing.T) {
	b := newBare(t)
	namespace := newNamespace(t, b.c)
	first := deployment(namespace, graphs.Services{"Worker": graphs.Worker(1, 2, 8, "")})
	b.must(b.c.Create(t.Context(), first))
	b.until("the first one has its pods", time.Minute, func() error { return b.belongs(first, "g-worker", "g-worker-0-0 g-worker-0-1") })
	b.orphan(first)
	binding := &rbacv1.RoleBinding{}
	b.must(b.c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "g-k8s-service-discovery-binding"}, binding))

	second := deployment(namespace, graphs.Services{"Worker": graphs.Worker(1, 1, 8, "")})
	second.Spec.Services["Worker"].Replicas = ptr.To[int32](1)
	b.must(b.c.Create(t.Context(), second))
	const cannot = "ScalingGroup g-worker of an earlier deployment of this name cannot be adopted: it is multinode and the component is not"
	for kind, want := range map[string]string{
		nvidiav1alpha1.ConditionOrphansAdopted: "kubectl delete -n " + namespace + " scalinggroups.trellis.dev/g-worker services/g-worker-pods",
		nvidiav1alpha1.ConditionPlaced:         cannot,
		nvidiav1alpha1.ConditionReady:          cannot,
	} {
		b.until(kind+" names it", time.Minute, func() error {
			if c := b.condition(second, kind); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, want) {
				return fmt.Errorf("%+v, want %q", c, want)
			}
			return nil
		})
	}
	if got := b.condition(second, nvidiav1alpha1.ConditionPlaced).Reason; got != nvidiav1alpha1.ReasonCreationRefused {
		t.Errorf("Placed is False for %s", got)
	}
	b.obey(b.condition(second, nvidiav1alpha1.ConditionOrphansAdopted).Message)
	b.until("the new one is made", time.Minute, func() error {
		if c := b.condition(second, nvidiav1alpha1.ConditionOrphansAdopted); c != nil {
			return fmt.Errorf("%+v", c)
		}
		return b.belongs(second, "g-worker", "g-worker-0")
	})
}
