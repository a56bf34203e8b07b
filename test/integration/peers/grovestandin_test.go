// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// podCliqueSet is what the operator has written, nil before.
func (w *world) podCliqueSet() (*grove.PodCliqueSet, *unstructured.Unstructured) {
	GinkgoHelper()
	object, err := client.Resource(resources["PodCliqueSet"]).Namespace(w.ns).Get(w.ctx, w.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	Expect(err).NotTo(HaveOccurred())
	return read[grove.PodCliqueSet](object), object
}

// set waits until this is written for Grove; the deployment is g in it.
func (w *world) set(want string) {
	GinkgoHelper()
	w.until("the PodCliqueSet is\n"+want, func() error {
		pcs, _ := w.podCliqueSet()
		if pcs == nil {
			return fmt.Errorf("there is none")
		}
		if got := w.plain(providertest.SketchGrove(pcs)); got != strings.TrimSpace(want) {
			return fmt.Errorf("it is\n%s", got)
		}
		return nil
	})
}

func (w *world) plain(sketch string) string {
	return strings.TrimSpace(strings.ReplaceAll(sketch, w.name, "g"))
}

// groveMade are the objects that Grove makes of the set, one a component, made by hand when they are not there.
func (w *world) groveMade() []*unstructured.Unstructured {
	GinkgoHelper()
	pcs, _ := w.podCliqueSet()
	get := func(kind, name string) *unstructured.Unstructured {
		object, err := client.Resource(resources[kind]).Namespace(w.ns).Get(w.ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		Expect(err).NotTo(HaveOccurred())
		return object
	}
	var out []*unstructured.Unstructured
	grouped := map[string]bool{}
	for _, group := range pcs.Spec.Template.PodCliqueScalingGroups {
		name := w.name + "-0-" + group.Name
		object := get("PodCliqueScalingGroup", name)
		var cliques []any
		for _, clique := range group.CliqueNames {
			grouped[clique] = true
			cliques = append(cliques, clique)
		}
		if object == nil {
			object = groveMakesGroup(w.ctx, w.ns, w.name, name, *group.Replicas, cliques...)
		}
		out = append(out, object)
	}
	for _, clique := range pcs.Spec.Template.Cliques {
		if grouped[clique.Name] {
			continue
		}
		name := w.name + "-0-" + clique.Name
		object := get("PodClique", name)
		if object == nil {
			object = groveMakes(w.ctx, w.ns, w.name, clique, name)
		}
		out = append(out, object)
	}
	return out
}

// groveCounts has Grove say how many replicas of each of its objects there are of this template, scheduled and ready, and why not more are.
// Those that serve are as many as are wanted.
func (w *world) groveCounts(why string, counts func(object string, wanted int64) (updated, scheduled, ready int64)) {
	GinkgoHelper()
	for _, object := range w.groveMade() {
		wanted, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		updated, scheduled, ready := counts(strings.TrimPrefix(object.GetName(), w.name+"-0-"), wanted)
		text := fmt.Sprintf("  {observedGeneration: %d, replicas: %d, updatedReplicas: %d, scheduledReplicas: %d, ", object.GetGeneration(), wanted, updated, scheduled)
		if object.GetKind() == "PodClique" {
			text += fmt.Sprintf("readyReplicas: %d, scheduleGatedReplicas: 0", ready)
		} else {
			text += fmt.Sprintf("availableReplicas: %d", ready)
		}
		if scheduled < wanted {
			text += fmt.Sprintf(`, conditions: [{type: PodCliqueScheduled, status: "False", reason: InsufficientScheduledPods, message: %q, lastTransitionTime: "2026-01-01T00:00:00Z"}]`, why)
		}
		status(w.ctx, object, text+"}")
	}
}

// groveSays writes Grove's word on the set: on the topology, and whether an update of it is on its way.
func (w *world) groveSays(levelsUnavailable, reason string, updating bool) {
	GinkgoHelper()
	_, object := w.podCliqueSet()
	end := `updateEndedAt: "2026-01-01T00:00:00Z"`
	if updating {
		end = "updateEndedAt: null"
	}
	status(w.ctx, object, fmt.Sprintf(`
  {observedGeneration: %d, availableReplicas: 1, updatedReplicas: 1, updateProgress: {updateStartedAt: "2026-01-01T00:00:00Z", totalPodCliquesCount: 1, totalPodCliqueScalingGroupsCount: 1, updatedPodCliquesCount: 1, updatedPodCliqueScalingGroupsCount: 1, %s},
   conditions: [{type: TopologyLevelsUnavailable, status: %q, reason: %s, message: "in Grove's words", lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: %d}]}`,
		object.GetGeneration(), end, levelsUnavailable, reason, object.GetGeneration()))
}

// groveServes: Grove has done all that it was asked for. Its scheduler places no constrained gang without a Topology of its own.
func (w *world) groveServes() {
	GinkgoHelper()
	if pcs, _ := w.podCliqueSet(); pcs.Spec.Template.TopologyConstraint != nil {
		w.until("KAI has the Topology", func() error {
			_, err := client.Resource(resources["Topology"]).Get(w.ctx, w.name, metav1.GetOptions{})
			return err
		})
	}
	w.groveSays("False", "AllClusterTopologyLevelsAvailable", false)
	w.groveCounts("", func(_ string, wanted int64) (int64, int64, int64) { return wanted, wanted, wanted })
}

// groveWaits: Grove's scheduler finds no capacity for a component, named as in the set.
func (w *world) groveWaits(component, why string, scheduled int64) {
	GinkgoHelper()
	w.groveSays("False", "AllClusterTopologyLevelsAvailable", false)
	w.groveCounts(why, func(object string, wanted int64) (int64, int64, int64) {
		if object == component {
			return wanted, scheduled, scheduled
		}
		return wanted, wanted, wanted
	})
}

// grovePod is a pod of a replica as Grove makes it of the clique, on a host; on "" it is not bound yet.
func (w *world) grovePod(component, clique string, replica int, host string) *corev1.Pod {
	GinkgoHelper()
	pcs, _ := w.podCliqueSet()
	for _, c := range pcs.Spec.Template.Cliques {
		if c.Name != clique {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.ns, GenerateName: fmt.Sprintf("%s-0-%s-%d-%s-", w.name, strings.ToLower(component), replica, clique), Labels: c.Labels, Annotations: c.Annotations,
		}, Spec: c.Spec.PodSpec}
		pod.Labels[grove.LabelPartOf], pod.Labels[grove.LabelReplica] = w.name, strconv.Itoa(replica)
		if host != "" {
			pod.Spec.NodeName = w.name + "-" + host
			pod.Spec.SchedulerName = ""
		}
		pod.Spec.ServiceAccountName = ""
		return made(w.ctx, pod)
	}
	Fail(fmt.Sprintf("the set has no clique %s for %s", clique, component))
	return nil
}
