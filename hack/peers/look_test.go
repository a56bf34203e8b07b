// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

func (w *world) dgd(name string) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	w.answered(func() error { return api.Get(w.ctx, client.ObjectKey{Namespace: w.name, Name: name}, dgd) })
	return dgd
}

func (w *world) condition(name, kind string) metav1.Condition {
	GinkgoHelper()
	if c := meta.FindStatusCondition(w.dgd(name).Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// ready waits until a deployment is Ready at its current generation, with all its pods bound.
func (w *world) ready(name string) {
	GinkgoHelper()
	w.until(name+" is Ready", func() error {
		dgd := w.dgd(name)
		c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || dgd.Status.ObservedGeneration != dgd.Generation {
			return fmt.Errorf("state %s, Ready %+v, Placed %s", dgd.Status.State, c, w.condition(name, placed).Message)
		}
		for _, pod := range w.pods(name, "") {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
}

// says waits for a condition with one of the given reasons and with words in its message.
func (w *world) says(name, kind string, status metav1.ConditionStatus, reasons, words string) {
	GinkgoHelper()
	w.until(fmt.Sprintf("%s of %s is %s/%s with %q", kind, name, status, reasons, words), func() error {
		c := w.condition(name, kind)
		if c.Status != status || !slices.Contains(strings.Split(reasons, "|"), c.Reason) || !strings.Contains(c.Message, words) {
			return fmt.Errorf("it is %s/%s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

// listed returns all pods of the world.
func (w *world) listed() *corev1.PodList {
	GinkgoHelper()
	pods := &corev1.PodList{}
	w.answered(func() error { return api.List(w.ctx, pods, client.InNamespace(w.name)) })
	return pods
}

// pods returns the pods of a service of a deployment that are not terminating; "" for all services.
func (w *world) pods(name, service string) []corev1.Pod {
	GinkgoHelper()
	return slices.DeleteFunc(w.listed().Items, func(p corev1.Pod) bool { return !isOf(&p, name, service) })
}

// isOf reports whether a pod belongs to a service of a deployment and is not terminating; "" for any service.
func isOf(p *corev1.Pod, name, service string) bool {
	return p.DeletionTimestamp == nil && p.Labels[render.LabelGraph] == render.LabelValue(name) &&
		(service == "" || p.Labels[render.LabelComponent] == service)
}

// replicas returns the pods of a service by replica.
func (w *world) replicas(service string) map[int][]corev1.Pod {
	GinkgoHelper()
	out := map[int][]corev1.Pod{}
	for _, pod := range w.pods("g", service) {
		ordinal, _, _ := render.ReplicaOf(&pod)
		at := int(ordinal)
		if index, has := pod.Labels[grove.LabelReplica]; has {
			at, _ = strconv.Atoi(index)
		}
		out[at] = append(out[at], pod)
	}
	return out
}

// domains returns the domains of the pods at a level, as paths from the zone down.
func (w *world) domains(level string, pods ...corev1.Pod) []string {
	GinkgoHelper()
	found := map[string]bool{}
	for i := range pods {
		node := &corev1.Node{}
		w.answered(func() error {
			return client.IgnoreNotFound(api.Get(w.ctx, client.ObjectKey{Name: cmp.Or(pods[i].Spec.NodeName, "none")}, node))
		})
		if node.Name == "" {
			found["no node"] = true
			continue
		}
		path := node.Labels[zoneKey]
		if level == "rack" {
			path += "/" + node.Labels[rackKey]
		}
		found[path] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// eachInOne checks that a service has the given replicas, each with size pods in one rack.
func (w *world) eachInOne(service string, size, replicas int) {
	GinkgoHelper()
	got := w.replicas(service)
	Expect(slices.Collect(maps.Keys(got))).To(HaveLen(replicas), "replicas of %s", service)
	for ordinal, pods := range got {
		Expect(count(pods, size)).To(Succeed(), "%s-%d", service, ordinal)
		Expect(w.domains("rack", pods...)).To(HaveLen(1), "racks of %s-%d", service, ordinal)
	}
}

func (w *world) in(service, level string, want ...string) {
	GinkgoHelper()
	Expect(w.domains(level, w.pods("g", service)...)).To(Equal(want), "domains of %q", service)
}

// bound returns the pods of a service that have a node.
func (w *world) bound(service string) []corev1.Pod {
	GinkgoHelper()
	return slices.DeleteFunc(w.pods("g", service), func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
}

// stay checks that these pods still exist.
func (w *world) stay(pods []corev1.Pod) {
	GinkgoHelper()
	now := graphs.UIDs(w.pods("g", ""))
	for _, pod := range pods {
		Expect(now).To(HaveKey(pod.UID), "%s is gone", pod.Name)
	}
}

// lacks returns an error if the deployment has a pod of this UID.
func (w *world) lacks(uid types.UID) error {
	GinkgoHelper()
	for _, pod := range w.pods("g", "") {
		if pod.UID == uid {
			return fmt.Errorf("%s is there", pod.Name)
		}
	}
	return nil
}

func said(c metav1.Condition, words string) error {
	if !strings.Contains(c.Message, words) {
		return fmt.Errorf("it says %s/%s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

func count(pods []corev1.Pod, want int) error {
	if len(pods) != want {
		return fmt.Errorf("%d pods, want %d", len(pods), want)
	}
	return nil
}
