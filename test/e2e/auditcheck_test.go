// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
)

// planted is an auditor of a world without a cluster: zones a and b, each with racks r0 and r1 of two hosts, and a graph of one replica of two
// pods with 8 GPUs each, which is as wanted.
type planted struct {
	*auditor
	dgd  *nvidiav1beta1.DynamoGraphDeployment
	pods []*corev1.Pod
}

func plant() *planted {
	w := &world{name: "w"}
	a := w.newAuditor(racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1"))
	for name := range a.observer.hosts {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		a.seeNode(watch.Added, node)
	}
	p := &planted{auditor: a, dgd: &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g"}}}
	p.dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker", Replicas: ptr.To(int32(1)), Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2}}}
	p.says("True", "True")
	a.seeGroup(watch.Added, &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Name: "g-worker", UID: "sg", OwnerReferences: controlledBy("g")}})
	for i := range 2 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("g-worker-0-%d", i), UID: types.UID(fmt.Sprint(i)), OwnerReferences: controlledBy("sg"), Labels: map[string]string{
				render.LabelGraph: "g", render.LabelComponent: "Worker", render.LabelReplica: "0", render.LabelPodIndex: fmt.Sprint(i), render.LabelReplicaSize: "2",
			},
		}}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: gpuList(8)}}}
		pod.Spec.NodeName = fmt.Sprintf("w-a-r0-%d", i)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.pods = append(p.pods, pod)
	}
	p.see()
	return p
}

func controlledBy(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{UID: uid, Controller: ptr.To(true)}}
}

func (p *planted) says(placed, ready metav1.ConditionStatus) {
	p.dgd.Status.Conditions = []metav1.Condition{{Type: nvidiav1beta1.ConditionPlaced, Status: placed}, {Type: nvidiav1beta1.ConditionReady, Status: ready}}
}

// see has the auditor see everything as it is now.
func (p *planted) see() {
	p.seeGraph(watch.Modified, p.dgd)
	for _, pod := range p.pods {
		p.observer.see(watch.Modified, pod)
	}
}

// gate makes the pods wait.
func (p *planted) gate() {
	for _, pod := range p.pods {
		pod.Spec.NodeName, pod.Status.Conditions = "", nil
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
	}
}

// What is wrong is noticed: at once what must never be, and after a while what contradicts the facts.
func TestAuditorNotices(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(p *planted){
		"":                           func(*planted) {},
		"is released in [a/r0 a/r1]": func(p *planted) { p.pods[1].Spec.NodeName = "w-a-r1-0" },
		"is released in zones [a b]": func(p *planted) { p.pods[1].Spec.NodeName = "w-b-r0-0" },
		"have 16 GPUs, and it has 8": func(p *planted) { p.pods[1].Spec.NodeName = "w-a-r0-0" },
		"and its graph is gone":      func(p *planted) { p.seeGraph(watch.Deleted, p.dgd); p.dgd = &nvidiav1beta1.DynamoGraphDeployment{} },
		"is on node w-a-r0-1, which is gone": func(p *planted) {
			p.seeNode(watch.Deleted, p.nodes["w-a-r0-1"])
		},
		"says that it is Ready, and not all of its pods are":     func(p *planted) { p.pods[1].Status.Conditions = nil },
		"says that it is not Ready, and all of its pods are":     func(p *planted) { p.says("True", "False") },
		"says that it is Placed, and some of its pods are gated": func(p *planted) { p.gate(); p.says("True", "False") },
		"waits for 2 pods with 8 GPUs, and a rack has hosts":     func(p *planted) { p.gate(); p.says("False", "False") },
		"is bound in part, 1 pods of 2": func(p *planted) {
			p.pods[1].Spec.NodeName, p.pods[1].Status.Conditions = "", nil
			p.says("True", "False")
		},
		"exists in part, 1 pods of 2": func(p *planted) {
			p.gate()
			p.observer.see(watch.Deleted, p.pods[1])
			p.pods = p.pods[:1]
			p.says("False", "False")
		},
		"the base gang of g (g) exists in part, 2 pods, and 0 of 1 replicas of Frontend": func(p *planted) {
			p.gate()
			p.dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{PackDomain: "zone"}
			p.dgd.Spec.Components = append(p.dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: "Frontend"})
			p.says("False", "False")
		},
		"its status is of an older generation": func(p *planted) { p.dgd.Generation = 1 },
		"replica g-worker-0 moves, and no one has asked for it: node w-a-r0-0 is drained": func(p *planted) {
			sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Name: "g-worker", UID: "sg", OwnerReferences: controlledBy("g")}}
			sg.Status.Moves = []trellisv1alpha1.ReplicaMove{{Replica: 0, Why: "node w-a-r0-0 is drained"}}
			p.seeGroup(watch.Modified, sg)
		},
		"pod g-worker-0-1 is requested to leave, and no one has asked for it": func(p *planted) {
			p.pods[1].Annotations = map[string]string{leaving.AnnotationEviction: "node 2026-12-01T12:00:00Z"}
		},
	} {
		p := plant()
		change(p)
		p.see()
		now := time.Now()
		p.look(now)
		p.look(now.Add(eventually + time.Second))
		found := p.violations()
		if want == "" && len(found) > 0 || want != "" && !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
}

// A gang waits for a reason when the rack with hosts for it is in another zone than the graph, or is about to be taken.
func TestAuditorKnowsReasons(t *testing.T) {
	t.Parallel()
	p := plant()
	p.gate()
	p.says("False", "False")
	for i, name := range []string{"w-a-r0-0", "w-a-r1-0", "w-b-r0-1", "w-b-r1-1"} {
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("other" + fmt.Sprint(i)), OwnerReferences: controlledBy("sg2")}}
		other.Spec.NodeName, other.Spec.Containers = name, p.pods[0].Spec.Containers
		p.observer.see(watch.Added, other)
	}
	p.groups["sg2"] = "g2"
	p.dgds["g2"] = &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g2", UID: "g2"}}
	p.see()
	if found := p.facts().contradictions(); len(found) > 0 {
		t.Errorf("no rack has two hosts: %q", found)
	}
}
