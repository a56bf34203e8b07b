// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// inPartFor is how long a gang may hold quota without being complete.
const inPartFor = time.Minute

// inPart is a gang that exists in part.
type inPart struct {
	graph, text string
	since       time.Time
}

// checkParts looks at the gangs of the graph of a pod that changed.
func (o *observer) checkParts(changed *corev1.Pod, now time.Time) {
	o.overdue(now)
	graph := o.graphOf(changed)
	if graph == "" {
		return
	}
	var pods []*corev1.Pod
	for _, pod := range o.pods {
		if o.graphOf(pod) == graph {
			pods = append(pods, pod)
		}
	}
	found := gangsInPart(o.deployment(changed), pods)
	for name, part := range o.parts {
		if _, still := found[name]; part.graph == graph && !still {
			delete(o.parts, name)
		}
	}
	for name, text := range found {
		since := now
		if before, known := o.parts[name]; known {
			since = before.since
		}
		o.parts[name] = inPart{graph: graph, text: text, since: since}
	}
}

// forgive restarts the time limit of incomplete gangs after an outage of the API server: no gang can be completed during the outage, nor
// before clients retry.
func (o *observer) forgive(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, part := range o.parts {
		part.since = now
		o.parts[name] = part
	}
}

// overdue notes the gangs that have existed in part for too long.
func (o *observer) overdue(now time.Time) {
	for name, part := range o.parts {
		if now.Sub(part.since) > inPartFor {
			o.failures = append(o.failures, fmt.Sprintf("for longer than %s: %s", inPartFor, part.text))
			delete(o.parts, name)
		}
	}
}

// gangsInPart describes, by its name, each gang of a graph of which some pods exist and others do not, and of which nothing is bound: it holds
// quota that only a complete gang can use. While nothing of a packed graph is released, its base gang is one. The deployment is nil where
// it is not known.
func gangsInPart(dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod) map[string]string {
	type replica struct {
		group   string
		ordinal int32
	}
	found, replicas := map[string]string{}, map[replica][]*corev1.Pod{}
	begun, ending := false, false
	for _, pod := range pods {
		ordinal, _, ok := render.ReplicaOf(pod)
		switch {
		case !ok:
			continue
		case pod.DeletionTimestamp != nil:
			ending = true // its successor has to wait for that
			continue
		}
		begun = begun || !render.GateClosed(pod)
		r := replica{pod.Labels[render.LabelScalingGroup] + " (" + string(ownerOf(pod)) + ")", ordinal}
		replicas[r] = append(replicas[r], pod)
	}
	whole := map[string]int32{}
	for r, of := range replicas {
		size, _ := strconv.Atoi(of[0].Labels[render.LabelReplicaSize])
		bound := slices.ContainsFunc(of, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
		switch {
		case len(of) >= size:
			whole[of[0].Labels[render.LabelComponent]]++
		case !bound:
			name := fmt.Sprintf("replica %d of scaling group %s", r.ordinal, r.group)
			found[name] = fmt.Sprintf("%s exists in part, %d pods of %d", name, len(of), size)
		}
	}
	if dgd == nil || len(replicas) == 0 || begun || ending || dgd.Spec.TopologyConstraint == nil || dgd.Spec.TopologyConstraint.PackDomain == "" {
		return found
	}
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if needed := min(ptr.Deref(c.MinAvailable, 1), ptr.Deref(c.Replicas, 1)); whole[c.Name] < needed {
			name := fmt.Sprintf("the base gang of %s (%s)", dgd.Name, dgd.UID)
			found[name] = fmt.Sprintf("%s exists in part, %d pods, and %d of %d replicas of %s", name, len(pods), whole[c.Name], needed, c.Name)
		}
	}
	return found
}

// seeGraph follows the deployments of the world by their names.
func (o *observer) seeGraph(event watch.EventType, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if event == watch.Deleted {
		delete(o.graphs, dgd.Name)
	} else {
		o.graphs[dgd.Name] = dgd
	}
}

// A base gang is in part while a component of it lacks replicas, and what is released, terminates, is not packed or not known is not looked
// at as one.
func TestGangsInPart(t *testing.T) {
	t.Parallel()
	pod := func(component string, ordinal, index, size int, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: controlledBy(types.UID(component)), Labels: map[string]string{
			render.LabelScalingGroup: component, render.LabelComponent: component, render.LabelReplica: fmt.Sprint(ordinal),
			render.LabelPodIndex: fmt.Sprint(index), render.LabelReplicaSize: fmt.Sprint(size),
		}}}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		if change != nil {
			change(p)
		}
		return p
	}
	released := func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }
	ends := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	a0, a1, b := pod("A", 0, 0, 2, nil), pod("A", 0, 1, 2, nil), pod("B", 0, 0, 1, nil)
	packed := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "u"}}
	packed.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "A", Replicas: ptr.To[int32](2)}, {Name: "B"}, {Name: "C", Replicas: ptr.To[int32](0)}}
	packed.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{PackDomain: "zone"}
	loose := packed.DeepCopy()
	loose.Spec.TopologyConstraint = nil
	two := packed.DeepCopy()
	two.Spec.Components[0].MinAvailable = ptr.To[int32](2)
	for name, c := range map[string]struct {
		dgd  *nvidiav1beta1.DynamoGraphDeployment
		pods []*corev1.Pod
		want int
	}{
		"nothing":                                 {packed, nil, 0},
		"all of it":                               {packed, []*corev1.Pod{a0, a1, b}, 0},
		"a component lacks":                       {packed, []*corev1.Pod{a0, a1}, 1},
		"a component lacks, in no domain":         {loose, []*corev1.Pod{a0, a1}, 0},
		"a component lacks, of an unknown graph":  {nil, []*corev1.Pod{a0, a1}, 0},
		"a component lacks, and another began":    {packed, []*corev1.Pod{pod("B", 0, 0, 1, released)}, 0},
		"a component lacks, and a pod terminates": {packed, []*corev1.Pod{b, pod("A", 0, 0, 2, ends)}, 0},
		"a replica of two that begin together":    {two, []*corev1.Pod{a0, a1, b}, 1},
		"half a replica, and so half a base gang": {packed, []*corev1.Pod{a0, b}, 2},
	} {
		if got := gangsInPart(c.dgd, c.pods); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
