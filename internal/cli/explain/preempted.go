// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// reasonPreempted is the reason of the kube-scheduler's events about preempted pods.
const reasonPreempted = "Preempted"

// maxPreempted is the maximum number of preemption events that are read in a namespace.
const maxPreempted = 500

// readPreempted reads the events about preempted pods of the namespace. The preempted pods are gone, but the pods that replace them have
// the same names, so preemptedBy finds the events by name.
func (s *Subject) readPreempted(ctx context.Context, c client.Reader) error {
	list := &corev1.EventList{}
	err := c.List(ctx, list, client.InNamespace(s.DGD.Namespace), client.MatchingFields{"reason": reasonPreempted}, client.Limit(maxPreempted))
	if apierrors.IsForbidden(err) {
		return nil // readEvents notes it
	}
	if err != nil {
		return cli.Explain(err, "listing events")
	}
	s.Preempted = list.Items
	return nil
}

// preemptorOf finds the UID of the preemptor in the kube-scheduler's message: "Preempted by pod 6b1b... on node n". It does not match the
// message about a gang with a PodGroup, which preempts as a unit: "Preempted by podgroup 6b1b... on node cluster".
var preemptorOf = regexp.MustCompile(`^Preempted by (?:a )?pod ([0-9a-f-]{36})`)

// preemptedBy names the deployment or the pod that last preempted a replica; "" for none.
func (s *Subject) preemptedBy(pods []*corev1.Pod) string {
	var last *corev1.Event
	for i := range s.Preempted {
		e := &s.Preempted[i]
		for _, pod := range pods {
			if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == pod.Name && (last == nil || timeOf(last).Time.Before(timeOf(e).Time)) {
				last = e
			}
		}
	}
	if last == nil {
		return ""
	}
	when := timeOf(last)
	return fmt.Sprintf("preempted %s ago by %s", ages{s.Now}.of(&when), s.preemptor(last))
}

// preemptor names the deployment or the pod that an event reports as the preemptor.
func (s *Subject) preemptor(e *corev1.Event) string {
	found := preemptorOf.FindStringSubmatch(e.Message)
	for _, pod := range s.Pods {
		if !relatedTo(e, pod) && (found == nil || found[1] != string(pod.UID)) {
			continue
		}
		who := pod.Namespace + "/" + pod.Name
		if graph := pod.Labels[render.LabelGraph]; graph != "" {
			who = pod.Namespace + "/" + graph
		}
		return fmt.Sprintf("%s (priority %d)", who, topology.PriorityOf(pod))
	}
	if by := e.Related; by != nil && by.Name != "" {
		kind := by.Kind
		if kind == "Pod" {
			kind = "pod"
		}
		return fmt.Sprintf("%s %s/%s, which is gone, or which you may not see", kind, by.Namespace, by.Name)
	}
	return "a pod that is gone, or that you may not see"
}

// relatedTo reports whether an event names a pod, the pod's PodGroup, or a PodGroup that the pod's replica had before it was recreated.
func relatedTo(e *corev1.Event, pod *corev1.Pod) bool {
	by, group := e.Related, podgroup.GroupOf(pod)
	switch {
	case by == nil:
		return false
	case by.Kind != "PodGroup":
		return by.UID == pod.UID && pod.UID != ""
	case group == "" || pod.Namespace != by.Namespace:
		return false
	}
	return group == by.Name || pod.Labels[render.LabelGraph] != "" && podgroup.SameReplica(group, by.Name)
}
