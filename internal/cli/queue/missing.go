// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Missing is a deployment whose status counts pods that do not exist.
type Missing struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Pods is the number of missing pods. Of is the number of all pods of the deployment's scheduled replicas.
	Pods int `json:"pods"`
	Of   int `json:"of"`
}

// component identifies a component of a graph by its labels.
type component struct{ namespace, graph, name string }

// missing lists the deployments with fewer complete replicas than their status counts as scheduled. It omits deployments whose condition
// Placed is False, and deployments that are being deleted.
func (s Deployments) missing() []Missing {
	existing := map[component][]*corev1.Pod{}
	for i := range s.Members {
		p := &corev1.Pod{ObjectMeta: s.Members[i].ObjectMeta}
		c := component{p.Namespace, p.Labels[render.LabelGraph], p.Labels[render.LabelComponent]}
		existing[c] = append(existing[c], p)
	}
	var list []Missing
	for _, dgd := range s.Graphs {
		if !s.listed(dgd.Namespace) || !s.seesPods(dgd.Namespace) || dgd.DeletionTimestamp != nil || waits(dgd) {
			continue
		}
		m := Missing{Namespace: dgd.Namespace, Name: dgd.Name}
		for _, c := range render.Components(dgd) {
			pods, all := missingOf(dgd, c, existing[component{dgd.Namespace, render.LabelValue(dgd.Name), render.LabelValue(c.Name)}])
			m.Pods, m.Of = m.Pods+pods, m.Of+all
		}
		if m.Pods > 0 {
			list = append(list, m)
		}
	}
	return list
}

// missingOf returns how many pods of a component's scheduled replicas are missing or terminating, and how many pods these replicas have in
// total. It returns 0 if another operator creates the pods, e.g. Grove, because the labels of such pods do not name a replica.
func missingOf(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec, pods []*corev1.Pod) (missing, all int) {
	scheduled := int(ptr.Deref(dgd.Status.Components[c.Name].ScheduledReplicas, 0))
	there, size := map[int32]int{}, map[int32]int{}
	for _, p := range pods {
		ordinal, _, ok := render.ReplicaOf(p)
		if !ok {
			return 0, 0
		}
		size[ordinal] = live.PodsOf(p, c)
		if p.DeletionTimestamp == nil {
			there[ordinal]++
		}
	}
	whole := 0
	for ordinal, of := range size {
		missing, all = missing+max(0, of-there[ordinal]), all+of
		if there[ordinal] >= of {
			whole++
		}
	}
	if whole >= scheduled {
		return 0, all // the terminating pods are no longer needed
	}
	each, _ := c.PodsPerReplica()
	gone := max(0, scheduled-len(size)) * int(each)
	return missing + gone, all + gone
}

// listed reports whether the deployments of a namespace are listed.
func (s Deployments) listed(namespace string) bool { return s.Only == "" || s.Only == namespace }

// seesPods reports whether the pods of a namespace were read.
func (s Deployments) seesPods(namespace string) bool { return !s.PodsHidden || s.PodsOf == namespace }

func (r Queue) missingText(p text.Page) string {
	parts := make([]string, 0, len(r.Missing))
	for _, m := range r.Missing {
		parts = append(parts, fmt.Sprintf("%s/%s (%d of %s)", m.Namespace, m.Name, m.Pods, text.Count(m.Of, "pod")))
	}
	return p.Wrap("Pods are missing that the status counts, and the operator has not reported it: "+strings.Join(parts, ", "), "  ") + "\n"
}
