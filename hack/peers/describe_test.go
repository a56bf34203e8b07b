// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// describe adds the objects of the world to the report of a failed spec, before they are deleted.
func (w *world) describe(ctx SpecContext) {
	dgds, pods, events := &nvidiav1alpha1.DynamoGraphDeploymentList{}, &corev1.PodList{}, &eventsv1.EventList{}
	var b strings.Builder
	for _, list := range []client.ObjectList{dgds, pods, events} {
		if err := api.List(ctx, list, client.InNamespace(w.name)); err != nil {
			fmt.Fprintf(&b, "listing %T: %v\n", list, err)
		}
	}
	for i := range dgds.Items {
		status, _ := yaml.Marshal(dgds.Items[i].Status)
		fmt.Fprintf(&b, "dgd %s:\n%s", dgds.Items[i].Name, status)
	}
	for i := range pods.Items {
		describePod(&b, &pods.Items[i])
	}
	for i := range events.Items {
		e := &events.Items[i]
		fmt.Fprintf(&b, "event %s %s/%s %s: %s\n", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
	}
	AddReportEntry("the objects of "+w.name, b.String(), ReportEntryVisibilityFailureOrVerbose)
}

// describePod writes the node of a pod, or why it is not scheduled.
func describePod(to io.Writer, p *corev1.Pod) {
	fmt.Fprintf(to, "pod %s node=%s phase=%s gates=%v selector=%v deleting=%v\n",
		p.Name, p.Spec.NodeName, p.Status.Phase, p.Spec.SchedulingGates, p.Spec.NodeSelector, p.DeletionTimestamp != nil)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			fmt.Fprintf(to, "    %s: %s\n", c.Reason, c.Message)
		}
	}
}
