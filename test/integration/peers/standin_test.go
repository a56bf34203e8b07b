// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

// No scheduler and no kubelet runs here. act does by hand what they (and LeaderWorkerSet) would have done by now: a pod that was released is bound to
// a node that its pins allow, if its PodGroup has the leaf it names; a pod with a node runs; a pod that is deleted ends.
func (w *world) act() error {
	if w.sets != nil {
		w.sets.play()
	}
	pods, err := w.pods()
	if err != nil {
		return err
	}
	for i := range pods {
		if err := w.advance(&pods[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s: %w", pods[i].Name, err)
		}
	}
	return nil
}

func (w *world) pods() ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := typed.List(w.ctx, pods, ctrlclient.InNamespace(w.ns), w.ours())
	return pods.Items, err
}

func newGroup() *trellisv1alpha1.ScalingGroup { return &trellisv1alpha1.ScalingGroup{} }

func (w *world) advance(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return typed.Delete(w.ctx, pod, ctrlclient.GracePeriodSeconds(0))
	case len(pod.Spec.SchedulingGates) > 0 && pod.Annotations[kai.AnnotationPodGroup] != "":
		return w.unschedulable(pod, staleWord(pod)) // KAI counts members, gated or not
	case len(pod.Spec.SchedulingGates) > 0, pod.Status.Phase == corev1.PodRunning:
		return nil
	case pod.Spec.NodeName != "":
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return typed.Status().Update(w.ctx, pod)
	case w.refuses != "":
		return w.unschedulable(pod, w.refuses)
	case pod.Spec.SchedulerName == kai.SchedulerName && pod.Annotations[kai.AnnotationPodGroup] != "" && len(pod.Status.Conditions) == 0:
		return w.unschedulable(pod, staleWord(pod)) // KAI may see a member before it sees the PodGroup with its leaf
	}
	if pod.Spec.SchedulerName == kai.SchedulerName {
		if err := w.member(pod); err != nil {
			return err
		}
	}
	node, err := w.fit(pod)
	if err != nil {
		return err
	}
	return typed.SubResource("binding").Create(w.ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
}

func (w *world) unschedulable(pod *corev1.Pod, message string) error {
	c := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}
	if len(pod.Status.Conditions) == 1 && pod.Status.Conditions[0].Message == c.Message {
		return nil
	}
	pod.Status.Conditions = []corev1.PodCondition{c}
	return typed.Status().Update(w.ctx, pod)
}

// staleWord is what KAI says of a pod whose leaf it has not seen.
func staleWord(pod *corev1.Pod) string {
	return fmt.Sprintf("Pod references subgroup %q, which does not exist in PodGroup %s/%s", pod.Labels[kai.LabelSubGroup], pod.Namespace, pod.Annotations[kai.AnnotationPodGroup])
}

// member: KAI takes a pod only as a member of a PodGroup that has its leaf. Its grouper makes one for each pod that is not exempt.
func (w *world) member(pod *corev1.Pod) error {
	if pod.Annotations[kai.AnnotationSkipGrouper] != "true" {
		if pod.Labels[kai.LabelQueue] == "" {
			return errors.New("KAI groups it into no queue")
		}
		return nil
	}
	object, err := client.Resource(resources["PodGroup"]).Namespace(w.ns).Get(w.ctx, pod.Annotations[kai.AnnotationPodGroup], metav1.GetOptions{})
	if err != nil {
		return errors.New("it was released before its PodGroup was there: " + err.Error())
	}
	leaf := pod.Labels[kai.LabelSubGroup]
	pg := read[kai.PodGroup](object)
	if pod.Annotations[kai.AnnotationSkipGrouper] != "true" || !slices.ContainsFunc(pg.Spec.SubGroups, func(s kai.SubGroup) bool { return s.Name == leaf && s.MinMember != nil }) {
		return fmt.Errorf("its PodGroup has no leaf %q", leaf)
	}
	return nil
}

// fit is the first node with capacity that the pod's pins allow.
func (w *world) fit(pod *corev1.Pod) (string, error) {
	nodes, all := &corev1.NodeList{}, &corev1.PodList{}
	if err := typed.List(w.ctx, nodes, ctrlclient.MatchingLabels{poolKey: w.name}); err != nil {
		return "", err
	}
	if err := typed.List(w.ctx, all); err != nil {
		return "", err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		free := node.Status.Allocatable["nvidia.com/gpu"].DeepCopy()
		for j := range all.Items {
			if all.Items[j].Spec.NodeName == node.Name {
				free.Sub(gpusOf(&all.Items[j]))
			}
		}
		wanted := gpusOf(pod)
		if free.Cmp(wanted) >= 0 && !node.Spec.Unschedulable && selects(pod, node) {
			return node.Name, nil
		}
	}
	return "", fmt.Errorf("no node has capacity for it with the pins %v", pod.Spec.NodeSelector)
}

// selects reports whether the node selector and the required node affinity of a pod, its pins included, let it onto a node.
func selects(pod *corev1.Pod, node *corev1.Node) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return matches && err == nil
}

// replica are the pods of one replica that are not being deleted.
func (w *world) replica(component string, ordinal int32) []corev1.Pod {
	GinkgoHelper()
	pods, err := w.pods()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		at, _, ok := render.ReplicaOf(&pod)
		return !ok || at != ordinal || pod.Labels[render.LabelComponent] != component || pod.DeletionTimestamp != nil
	})
}

// in waits until all size pods of a replica were released, pinned to the path of a domain, and run there.
func (w *world) in(component string, ordinal int32, size int, path string) {
	GinkgoHelper()
	zone, rack, _ := strings.Cut(path, "/")
	w.until(fmt.Sprintf("%s-%d runs in %s", component, ordinal, path), func() error {
		pods := w.replica(component, ordinal)
		if len(pods) != size {
			return fmt.Errorf("it has %d pods", len(pods))
		}
		for i := range pods {
			pins := pods[i].Spec.NodeSelector
			if pins[zoneKey] != zone || rack != "" && pins[rackKey] != rack {
				return fmt.Errorf("%s is pinned to %v", pods[i].Name, pins)
			}
			if pods[i].Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s", pods[i].Name, pods[i].Status.Phase)
			}
		}
		return nil
	})
}

// held waits until all size pods of a replica are there, and none was released.
func (w *world) held(component string, ordinal int32, size int) {
	GinkgoHelper()
	w.until(fmt.Sprintf("%s-%d is held", component, ordinal), func() error {
		pods := w.replica(component, ordinal)
		if len(pods) != size {
			return fmt.Errorf("it has %d pods", len(pods))
		}
		for i := range pods {
			if !render.GateClosed(&pods[i]) {
				return StopTrying(pods[i].Name + " was released")
			}
		}
		return nil
	})
}

func gpusOf(pod *corev1.Pod) (sum resource.Quantity) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return sum
	}
	for i := range pod.Spec.Containers {
		sum.Add(pod.Spec.Containers[i].Resources.Limits["nvidia.com/gpu"])
	}
	return sum
}
