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
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// reasonPreempted is the reason of the kube-scheduler's events about pods that it has preempted.
const reasonPreempted = "Preempted"

// maxPreempted is how many such events of a namespace are read.
const maxPreempted = 500

// readPreempted reads who has preempted pods of the namespace: events about pods of the same names that are gone.
func (s *Subject) readPreempted(ctx context.Context, c client.Reader) error {
	list := &corev1.EventList{}
	err := c.List(ctx, list, client.InNamespace(s.DGD.Namespace), client.MatchingFields{"reason": reasonPreempted}, client.Limit(maxPreempted))
	if apierrors.IsForbidden(err) {
		return nil // noted for the other events
	}
	if err != nil {
		return cli.Explain(err, "listing events")
	}
	s.Preempted = list.Items
	return nil
}

// preemptorOf finds the UID of the preemptor in the kube-scheduler's words: "Preempted by pod 6b1b... on node n".
var preemptorOf = regexp.MustCompile(`^Preempted by (?:a )?pod ([0-9a-f-]{36})`)

// preemptedBy names the deployment or the pod that has preempted a replica last; "" for none.
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

// preemptor names the deployment or the pod that an event names as the preemptor.
func (s *Subject) preemptor(e *corev1.Event) string {
	found := preemptorOf.FindStringSubmatch(e.Message)
	for _, pod := range s.Pods {
		related := e.Related != nil && e.Related.UID == pod.UID && pod.UID != ""
		if !related && (found == nil || found[1] != string(pod.UID)) {
			continue
		}
		who := pod.Namespace + "/" + pod.Name
		if graph := pod.Labels[render.LabelGraph]; graph != "" {
			who = pod.Namespace + "/" + graph
		}
		return fmt.Sprintf("%s (priority %d)", who, topology.PriorityOf(pod))
	}
	if e.Related != nil && e.Related.Kind == "Pod" && e.Related.Name != "" {
		return fmt.Sprintf("pod %s/%s, which is gone", e.Related.Namespace, e.Related.Name)
	}
	return "a pod that is gone, or that you may not see"
}
