// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

const gpuResource = "nvidia.com/gpu"

func merge(change string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(change)) }

// pods returns the pods of the team's deployments by name, including terminating ones.
func (t *team) pods() []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	t.answered(func() error {
		return api.List(t.ctx, list, client.InNamespace(t.namespace), client.HasLabels{render.LabelGraph})
	})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

// podsOf returns the pods of a service of a deployment.
func (t *team) podsOf(name, service string) []corev1.Pod {
	GinkgoHelper()
	return slices.DeleteFunc(t.pods(), func(p corev1.Pod) bool {
		return p.Labels[render.LabelGraph] != render.LabelValue(name) || p.Labels[render.LabelComponent] != service
	})
}

// workloads returns the Workloads of the team, by name.
func (t *team) workloads() []*quota.Workload {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("WorkloadList"))
	t.answered(func() error { return api.List(t.ctx, list, client.InNamespace(t.namespace)) })
	var out []*quota.Workload
	for i := range list.Items {
		one := &quota.Workload{}
		Expect(external.Read(&list.Items[i], one)).To(Succeed())
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *quota.Workload) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (t *team) dgd(name string) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	t.answered(func() error { return api.Get(t.ctx, client.ObjectKey{Namespace: t.namespace, Name: name}, dgd) })
	return dgd
}

// says waits for a condition of a deployment with a reason and with words in its message.
func (t *team) says(name, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	GinkgoHelper()
	t.until(fmt.Sprintf("%s of %s is %s/%s with %q", kind, name, status, reason, words), func() error {
		c := meta.FindStatusCondition(t.dgd(name).Status.Conditions, kind)
		if c == nil {
			return errors.New("there is none")
		}
		lacks := slices.ContainsFunc(words, func(one string) bool { return !strings.Contains(c.Message, one) })
		if c.Status != status || c.Reason != reason || lacks {
			return fmt.Errorf("it is %s/%s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

// ready waits until a deployment is Ready at its current generation.
func (t *team) ready(name string) {
	GinkgoHelper()
	t.until(name+" is Ready", func() error {
		dgd := t.dgd(name)
		c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || dgd.Status.ObservedGeneration != dgd.Generation {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
}

// uses returns an error unless Kueue counts the given number of GPUs as used in the team's queue.
func (t *team) uses(want int64) error {
	GinkgoHelper()
	queue := &unstructured.Unstructured{}
	queue.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("ClusterQueue"))
	t.answered(func() error { return api.Get(t.ctx, client.ObjectKey{Name: t.namespace}, queue) })
	for _, field := range []string{"flavorsReservation", "flavorsUsage"} {
		if got := gpusIn(queue, field); got != want {
			return fmt.Errorf("%s of ClusterQueue %s is %d GPUs, want %d", field, t.namespace, got, want)
		}
	}
	return nil
}

// gpusIn adds up the GPUs in a field of a ClusterQueue's status.
func gpusIn(queue *unstructured.Unstructured, field string) (sum int64) {
	flavors, _, _ := unstructured.NestedSlice(queue.Object, "status", field)
	for _, flavor := range flavors {
		resources, _, _ := unstructured.NestedSlice(flavor.(map[string]any), "resources")
		for _, r := range resources {
			resource := r.(map[string]any)
			if resource["name"] == gpuResource {
				n, _ := strconv.ParseInt(fmt.Sprint(resource["total"]), 10, 64)
				sum += n
			}
		}
	}
	return sum
}

// gpusOf returns the GPUs that a pod requests.
func gpusOf(spec *corev1.PodSpec) (sum int64) {
	for i := range spec.Containers {
		q := spec.Containers[i].Resources.Limits[gpuResource]
		sum += q.Value()
	}
	return sum
}

// requested returns the GPUs that a Workload requests.
func requested(w *quota.Workload) (sum int64) {
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		sum += gpusOf(&set.Template.Spec) * int64(set.Count)
	}
	return sum
}

// settled returns an error unless each Workload of the team has quota and all its pods run, or has none and all its pods have Kueue's gate.
func (t *team) settled() error {
	GinkgoHelper()
	members, pods := map[string][]corev1.Pod{}, t.pods()
	for i := range pods {
		name := quota.WorkloadOf(&pods[i])
		if pods[i].DeletionTimestamp != nil || name == "" {
			return fmt.Errorf("pod %s ends, or has no Workload: %q", pods[i].Name, name)
		}
		members[name] = append(members[name], pods[i])
	}
	used, all, lacking := int64(0), t.workloads(), map[string]bool{}
	for _, w := range all {
		lacking[w.Labels[render.LabelGraph]] = lacking[w.Labels[render.LabelGraph]] || !w.Admitted()
	}
	for _, w := range all {
		if err := agrees(w, members[w.Name], lacking[w.Labels[render.LabelGraph]]); err != nil {
			return err
		}
		if w.Admitted() {
			used += requested(w)
		}
		delete(members, w.Name)
	}
	if len(members) > 0 {
		return fmt.Errorf("pods are in Workloads that do not exist: %v", slices.Sorted(maps.Keys(members)))
	}
	return errors.Join(t.complete(), t.uses(used))
}

// agrees returns an error if the pods of a Workload contradict its quota. While another Workload of the deployment lacks quota, the pods of
// an admitted Workload without GPUs may wait: a component scaled from 0 has a Workload of its own.
func agrees(w *quota.Workload, pods []corev1.Pod, lacking bool) error {
	if w.DeletionTimestamp != nil || w.Finished() || len(pods) == 0 {
		return fmt.Errorf("Workload %s ends, is Finished: %v, or has no pods: %d", w.Name, w.Finished(), len(pods))
	}
	for i := range pods {
		held, runs := quota.Held(&pods[i]), pods[i].Status.Phase == corev1.PodRunning && pods[i].Spec.NodeName != ""
		waits := lacking && !held && requested(w) == 0
		if w.Admitted() && (held || !runs) && !waits || !w.Admitted() && !held {
			return fmt.Errorf("Workload %s is admitted: %v; pod %s has Kueue's gate: %v, runs: %v", w.Name, w.Admitted(), pods[i].Name, held, runs)
		}
	}
	return nil
}

// complete returns an error if a deployment has more or fewer pods than desired.
func (t *team) complete() error {
	GinkgoHelper()
	for _, name := range t.names() {
		for service, spec := range t.dgd(name).Spec.Services {
			want := int(*spec.Replicas)
			if spec.Multinode != nil {
				want *= int(spec.Multinode.NodeCount)
			}
			if got := len(t.podsOf(name, service)); got != want {
				return fmt.Errorf("%s of %s has %d pods, want %d", service, name, got, want)
			}
		}
	}
	return nil
}

// settle waits until all teams of a hall are settled.
func (h *hall) settle() {
	GinkgoHelper()
	for _, t := range h.teams {
		t.until("all is settled in "+t.namespace, t.settled)
	}
}

// running returns the GPUs of the running pods of a team.
func (t *team) running() (sum int64) {
	GinkgoHelper()
	for _, pod := range t.pods() {
		if pod.Spec.NodeName != "" {
			sum += gpusOf(&pod.Spec)
		}
	}
	return sum
}

// inOneRack checks that the pods are in one rack.
func (t *team) inOneRack(pods []corev1.Pod) {
	GinkgoHelper()
	racks := map[string]bool{}
	for i := range pods {
		node := &corev1.Node{}
		t.answered(func() error { return api.Get(t.ctx, client.ObjectKey{Name: pods[i].Spec.NodeName}, node) })
		racks[node.Labels[rackKey]] = true
	}
	Expect(racks).To(HaveLen(1), "racks of %d pods", len(pods))
}

// describe adds the objects of the team to the report of a failed spec, before they are deleted.
func (t *team) describe(ctx SpecContext) {
	t.hall.ctx = ctx
	var b strings.Builder
	for _, name := range t.names() {
		status, _ := yaml.Marshal(t.dgd(name).Status.Conditions)
		fmt.Fprintf(&b, "dgd %s:\n%s", name, status)
	}
	for _, w := range t.workloads() {
		status, _ := yaml.Marshal(w.Status)
		fmt.Fprintf(&b, "Workload %s in %s, deleting %v:\n%s", w.Name, w.Spec.QueueName, w.DeletionTimestamp != nil, status)
	}
	for _, pod := range t.pods() {
		fmt.Fprintf(&b, "pod %s of %s node=%s phase=%s gates=%v selector=%v deleting=%v\n", pod.Name, quota.WorkloadOf(&pod), pod.Spec.NodeName,
			pod.Status.Phase, pod.Spec.SchedulingGates, pod.Spec.NodeSelector, pod.DeletionTimestamp != nil)
	}
	AddReportEntry("the objects of "+t.namespace, b.String(), ReportEntryVisibilityFailureOrVerbose)
}
