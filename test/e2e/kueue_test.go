// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const reserved = nvidiav1alpha1.ConditionQuotaReserved

// kueue is played: Workloads are as its definition has them, and the spec admits and evicts, as Kueue does.
type kueue struct{ *world }

// install makes Workloads served.
func (k kueue) install() {
	k.t.Helper()
	crd := readInto(k.world, filepath.Join("testdata", "kueue.x-k8s.io_workloads.yaml"), &apiextensionsv1.CustomResourceDefinition{})
	k.define(crd)
}

// grant gives the operator the rights on Workloads that config/kueue has.
func (k kueue) grant() {
	k.t.Helper()
	role, err := os.ReadFile(filepath.Join("..", "..", "config", "kueue", "kueue_role.yaml"))
	k.must(err)
	documents := strings.Split(string(role), "\n---\n")
	clusterRole, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	k.must(yaml.UnmarshalStrict([]byte(documents[0]), clusterRole))
	k.must(yaml.UnmarshalStrict([]byte(documents[1]), binding))
	k.create(clusterRole)
	k.create(binding)
}

func readInto[T client.Object](w *world, file string, into T) T {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	w.must(err)
	w.must(yaml.Unmarshal(raw, into))
	return into
}

// workloads are those of the world, by name.
func (k kueue) workloads() map[string]*quota.Workload {
	k.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(quota.WorkloadKind)
	k.must(k.c.List(k.t.Context(), list, client.InNamespace(k.name)))
	out := map[string]*quota.Workload{}
	for i := range list.Items {
		one := &quota.Workload{}
		k.must(external.Read(&list.Items[i], one))
		out[one.Name] = one
	}
	return out
}

// asks waits until the Workloads are as many pods as are wanted, each in a line: the beginning of its name and its podsets.
func (k kueue) asks(want ...string) {
	k.t.Helper()
	k.until("the Workloads are "+strings.Join(want, ", "), func() error {
		var got []string
		for name, one := range k.workloads() {
			line := name[:strings.LastIndex(name, "-")]
			for _, set := range one.Spec.PodSets {
				line += fmt.Sprintf(" %sx%d", set.Name[:strings.LastIndex(set.Name, "-")], set.Count)
			}
			got = append(got, line)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// conditions sets conditions of a Workload.
func (k kueue) conditions(name string, conditions ...metav1.Condition) {
	k.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(quota.WorkloadKind)
	k.must(k.c.Get(k.t.Context(), types.NamespacedName{Namespace: k.name, Name: name}, object))
	before := object.DeepCopy()
	var list []any
	for _, c := range conditions {
		list = append(list, map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message, "lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	k.must(unstructured.SetNestedSlice(object.Object, list, "status", "conditions"))
	k.must(k.c.Status().Patch(k.t.Context(), object, client.MergeFrom(before))) // the operator writes the Workload meanwhile
}

// members are the pods of a Workload.
func (k kueue) members(name string) []corev1.Pod {
	k.t.Helper()
	return slices.DeleteFunc(k.all(), func(pod corev1.Pod) bool { return quota.WorkloadOf(&pod) != name })
}

// admit admits a Workload: its pods get the node labels of a flavor, and lose Kueue's gate.
func (k kueue) admit(name string, flavor map[string]string) {
	k.t.Helper()
	k.conditions(name, metav1.Condition{Type: "QuotaReserved", Status: metav1.ConditionTrue, Reason: "QuotaReserved", Message: "Quota reserved in ClusterQueue cq"},
		metav1.Condition{Type: "Admitted", Status: metav1.ConditionTrue, Reason: "Admitted", Message: "The workload is admitted"})
	for _, pod := range k.members(name) {
		k.ungate(pod.Name, quota.Gate, flavor)
	}
}

// evict takes the quota of a Workload back.
func (k kueue) evict(name string) {
	k.t.Helper()
	k.conditions(name, metav1.Condition{Type: "QuotaReserved", Status: metav1.ConditionFalse, Reason: "Pending", Message: "Preempted to accommodate a workload"},
		metav1.Condition{Type: "Evicted", Status: metav1.ConditionTrue, Reason: "Preempted", Message: "Preempted to accommodate a workload"},
		metav1.Condition{Type: "Admitted", Status: metav1.ConditionFalse, Reason: "NoReservation", Message: "The workload has no reservation"})
	for _, pod := range k.members(name) {
		if len(pod.Spec.SchedulingGates) == 0 {
			k.must(client.IgnoreNotFound(k.c.Delete(k.t.Context(), &pod)))
		}
	}
}

// named is the Workload whose name begins so.
func (k kueue) named(prefix string) string {
	k.t.Helper()
	for name := range k.workloads() {
		if strings.HasPrefix(name, prefix+"-") {
			return name
		}
	}
	k.t.Fatalf("there is no Workload %s-...", prefix)
	return ""
}

var _ = Describe("A deployment in a queue of Kueue", Serial, suite.Core, func() {
	It("gets quota before its place, and gives it back", func(ctx SpecContext) {
		w := newWorld(ctx, "kueue", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		k := kueue{w}
		dgd := w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)})
		dgd.Labels = map[string]string{render.LabelKueueQueue: "q"}
		w.create(dgd)
		w.hasCondition("g", reserved, metav1.ConditionFalse, "KueueNotInstalled", "install a Kueue")
		Expect(w.all()).To(BeEmpty(), "nothing bypasses the quota")

		k.install()
		w.hasCondition("g", reserved, metav1.ConditionFalse, "KueueNotReadable", "config/kueue")
		k.grant()
		k.asks("g-base frontend-mainx1 worker-leaderx1 worker-workerx1", "g-worker-1 worker-leaderx1 worker-workerx1")
		w.waitsForAdmissionBy("g", quota.Gate)
		w.hasCondition("g", reserved, metav1.ConditionFalse, "QuotaPending", "0 of 2 Workloads")
		for _, pod := range w.all() {
			Expect(render.ForeignGates(&pod)).To(ConsistOf(quota.Gate), pod.Name)
		}

		base, second := k.named("g-base"), k.named("g-worker-1")
		k.admit(base, map[string]string{rackKey: "r1"})
		w.until("the base is bound", func() error { return bound(k.members(base)) })
		Expect(w.replicasOf("Worker")[0]).To(w.bePlacedIn("rack", "a/r1"), "where the flavor allows it")
		w.nothingBound(k.members(second))
		k.admit(second, nil)
		w.ready("g")
		w.hasCondition("g", reserved, metav1.ConditionTrue, "QuotaReserved", "all 2 Workloads")

		By("draining a host of a first replica, with no quota for its successor")
		host := w.hostAlone("Worker", 0)
		w.leave(host)
		k.asks("g-base frontend-mainx1 worker-leaderx1 worker-workerx1", "g-worker-1 worker-leaderx1 worker-workerx1", "g-worker-2 worker-leaderx1 worker-workerx1")
		Expect(w.replicasOf("Worker")[0]).To(HaveLen(2), "it goes before Kueue has looked for quota")
		k.conditions(k.named("g-worker-2"), metav1.Condition{
			Type: "QuotaReserved", Status: metav1.ConditionFalse, Reason: "Pending", Message: "couldn't assign flavors: insufficient unused quota",
		})
		k.asks("g-base frontend-mainx1 worker-leaderx1 worker-workerx1", "g-worker-1 worker-leaderx1 worker-workerx1")
		w.until("the replica is back in the Workload of the first replicas, held", func() error {
			pods := w.replicasOf("Worker")[0]
			if len(pods) != 2 || slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !quota.Held(&pod) || quota.WorkloadOf(&pod) != base }) {
				return fmt.Errorf("%d pods", len(pods))
			}
			return nil
		})
		k.admit(base, nil)
		w.ready("g")
		for _, pod := range w.all() {
			Expect(pod.Spec.NodeName).NotTo(Equal(host), "pod %s is on the host that is drained", pod.Name)
		}
		w.stay(host)

		By("draining a host of the second replica, with quota for its successor")
		host, kept := w.hostAlone("Worker", 1), uidsOf(k.members(base))
		w.leave(host)
		k.asks("g-base frontend-mainx1 worker-leaderx1 worker-workerx1", "g-worker-1 worker-leaderx1 worker-workerx1", "g-worker-2 worker-leaderx1 worker-workerx1")
		Expect(w.replicasOf("Worker")[1]).To(HaveLen(2), "it goes before its successor serves")
		k.admit(k.named("g-worker-2"), nil)
		k.asks("g-base frontend-mainx1 worker-leaderx1 worker-workerx1", "g-worker-2 worker-leaderx1 worker-workerx1")
		second = k.named("g-worker-2")
		w.ready("g")
		Expect(uidsOf(k.members(base))).To(ConsistOf(kept), "the first replicas")
		w.stay(host)

		before := uidsOf(k.members(second))
		k.evict(second)
		w.until("the replica is back, held", func() error {
			pods := k.members(second)
			for i := range pods {
				if slices.Contains(before, pods[i].UID) || !quota.Held(&pods[i]) {
					return fmt.Errorf("pod %s", pods[i].Name)
				}
			}
			if len(pods) != 2 {
				return fmt.Errorf("%d pods", len(pods))
			}
			return nil
		})
		w.hasCondition("g", reserved, metav1.ConditionFalse, "QuotaPending", "1 of 2 Workloads", "Preempted to accommodate")

		w.patch("g", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"r"}}}`)
		w.until("what has no quota waits in the other queue", func() error {
			if queue := k.workloads()[second].Spec.QueueName; queue != "r" {
				return fmt.Errorf("its Workload is in queue %s", queue)
			}
			for _, pod := range k.members(second) {
				if queue := pod.Labels[render.LabelKueueQueue]; queue != "r" {
					return fmt.Errorf("pod %s is in queue %s", pod.Name, queue)
				}
			}
			return nil
		})
		Expect(k.workloads()[base].Spec.QueueName).To(Equal("q"), "what has quota keeps it")

		w.patch("g", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}`)
		w.ready("g")
		k.asks("g-base frontend-mainx1 worker-leaderx1 worker-workerx1")
		w.delete("g")
	}, SpecTimeout(suite.Timeout()))
})

// bound reports which of some pods has no node.
func bound(pods []corev1.Pod) error {
	for i := range pods {
		if pods[i].Spec.NodeName == "" {
			return fmt.Errorf("pod %s has the gates %v", pods[i].Name, pods[i].Spec.SchedulingGates)
		}
	}
	return nil
}

func (w *world) nothingBound(pods []corev1.Pod) {
	w.t.Helper()
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			w.t.Errorf("pod %s is bound", pods[i].Name)
		}
	}
}
