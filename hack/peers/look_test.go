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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
)

func (w *world) dgd(name string) *nvidiav1alpha1.DynamoGraphDeployment {
	w.Helper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := api.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: name}, dgd); err != nil {
		w.Fatal(err)
	}
	return dgd
}

func (w *world) condition(name, kind string) metav1.Condition {
	w.Helper()
	if c := meta.FindStatusCondition(w.dgd(name).Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// ready waits until a deployment is Ready for what it says today, with all its pods bound.
func (w *world) ready(name string) {
	w.Helper()
	w.until(name+" is Ready", func() error {
		dgd := w.dgd(name)
		c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || dgd.Status.ObservedGeneration != dgd.Generation {
			return fmt.Errorf("state %s, Ready %+v, Placed %s", dgd.Status.State, c, w.condition(name, nvidiav1alpha1.ConditionPlaced).Message)
		}
		for _, pod := range w.pods(name, "") {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
}

// says waits for a condition with one of some reasons and with words in its message.
func (w *world) says(name, kind string, status metav1.ConditionStatus, reasons, words string) {
	w.Helper()
	w.until(fmt.Sprintf("%s of %s is %s/%s with %q", kind, name, status, reasons, words), func() error {
		c := w.condition(name, kind)
		if c.Status != status || !slices.Contains(strings.Split(reasons, "|"), c.Reason) || !strings.Contains(c.Message, words) {
			return fmt.Errorf("it is %s/%s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

// pods are the running pods of a service of a deployment, of all for "".
func (w *world) pods(name, service string) []corev1.Pod {
	w.Helper()
	pods := &corev1.PodList{}
	if err := api.List(w.Context(), pods, client.InNamespace(w.name), client.MatchingLabels{graph.LabelGraph: graph.LabelValue(name)}); err != nil {
		w.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || service != "" && p.Labels[graph.LabelComponent] != service
	})
}

// replicas are the pods of a service by replica.
func (w *world) replicas(service string) map[int][]corev1.Pod {
	w.Helper()
	out := map[int][]corev1.Pod{}
	for _, pod := range w.pods("g", service) {
		ordinal, _, _ := graph.ReplicaOf(&pod)
		at := int(ordinal)
		if index, has := pod.Labels[grove.LabelReplica]; has {
			at, _ = strconv.Atoi(index)
		}
		out[at] = append(out[at], pod)
	}
	return out
}

// domains are those of a level, as paths from the zone down, that pods are in.
func (w *world) domains(level string, pods ...corev1.Pod) []string {
	w.Helper()
	found := map[string]bool{}
	for i := range pods {
		node := &corev1.Node{}
		if err := api.Get(w.Context(), client.ObjectKey{Name: cmp.Or(pods[i].Spec.NodeName, "none")}, node); err != nil {
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

// eachInOne: each replica of a service has size pods in one rack.
func (w *world) eachInOne(service string, size, replicas int) {
	w.Helper()
	got := w.replicas(service)
	if len(got) != replicas {
		w.Errorf("%d replicas, want %d", len(got), replicas)
	}
	for ordinal, pods := range got {
		if in := w.domains("rack", pods...); len(in) != 1 || len(pods) != size {
			w.Errorf("%s-%d: %d pods in %v, want %d in one rack", service, ordinal, len(pods), in, size)
		}
	}
}

func (w *world) in(service, level string, want ...string) {
	w.Helper()
	if got := w.domains(level, w.pods("g", service)...); !slices.Equal(got, want) {
		w.Errorf("%q is in %v, want %v", service, got, want)
	}
}

// noneBound: no pod of a service has a node, for a while.
func (w *world) noneBound(service string) {
	w.Helper()
	w.always("nothing is bound", func() error {
		for _, pod := range w.pods("g", service) {
			if pod.Spec.NodeName != "" {
				return fmt.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
			}
		}
		return nil
	})
}
