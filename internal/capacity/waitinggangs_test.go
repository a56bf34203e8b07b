// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// waiting is a refused replica.
func waiting(component string, ordinal int, code, together string, within topology.Path, level int) gang.Waiting {
	return gang.Waiting{
		Component: component, Ordinal: ordinal, Code: code, Gang: together, Refusal: &placement.Refusal{Code: code, Within: within, Level: level},
	}
}

// source is a graph of two components, packed by zone (key z) and rack (key r), whose pods all wait.
func source(waits ...gang.Waiting) *Source {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
	frozen := gangtest.Frozen("zone", "rack")
	frozen.NodeSelector = map[string]string{"pool": "gpu"}
	s := &Source{
		DGD: dgd, Kind: KindPlaceholders, NewNodeLabels: []string{"z"}, Result: gang.Result{Waiting: waits},
		Groups: []*trellisv1alpha1.ScalingGroup{gangtest.Group("front", 1, 1, frozen), gangtest.Group("work", 2, 2, frozen)},
	}
	for _, sg := range s.Groups {
		for ordinal := range sg.Spec.Replicas {
			for index := range map[string]int32{"front": 1, "work": 2}[sg.Spec.Component] {
				pod := gangtest.Pod(sg, ordinal, index)
				pod.CreationTimestamp = metav1.Unix(int64(1000+10*ordinal+index), 0)
				pod.Spec.Containers = []corev1.Container{{Name: "main"}}
				if sg.Spec.Component == "work" {
					pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
				}
				s.Pods = append(s.Pods, pod)
			}
		}
	}
	return s
}

// sketch is each gang in a line.
func sketch(gangs []Gang) (out []string) {
	for i := range gangs {
		g := &gangs[i]
		line := fmt.Sprintf("%s: %s since %d", g.Name, g, g.Since.Unix())
		spec := g.Sets[0].Template.Spec
		for _, key := range []string{"z", "r", "pool"} {
			if value := spec.NodeSelector[key]; value != "" {
				line += " " + key + "=" + value
			}
		}
		if a := spec.Affinity; a != nil && a.PodAffinity != nil {
			line += " together in one " + a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey
		}
		if g.Bars != "" {
			line += " barred: " + g.Bars
		}
		out = append(out, line)
	}
	return out
}

func TestGangs(t *testing.T) {
	const short = placement.CodeInsufficientCapacity
	base := "the base gang"
	for name, tc := range map[string]struct {
		waits  []gang.Waiting
		change func(*Source)
		want   []string
	}{
		"the base gang, and what follows it": {waits: []gang.Waiting{
			waiting("front", 0, short, base, nil, 0), waiting("work", 0, short, base, nil, 0), waiting("work", 1, placement.CodeBaseGangWaits, "", nil, 0),
		}, want: []string{"the base gang: 2 pods x 8 nvidia.com/gpu + 1 pod x no requests since 1001 pool=gpu together in one z"}},
		"a replica in the zone of its graph": {waits: []gang.Waiting{waiting("work", 1, placement.CodeNeverFits, "", topology.Path{"a"}, 1)},
			want: []string{"work-1: 2 pods x 8 nvidia.com/gpu since 1011 z=a pool=gpu"}},
		"in the rack of its other pods": {waits: []gang.Waiting{waiting("work", 1, placement.CodeDomainGone, "", topology.Path{"a", "r0"}, 1)},
			want: []string{"work-1: 2 pods x 8 nvidia.com/gpu since 1011 z=a pool=gpu"}},
		"no node has a label": {waits: []gang.Waiting{waiting("work", 0, placement.CodeNoDomain, "", nil, 1)},
			want: []string{"work-0: 2 pods x 8 nvidia.com/gpu since 1001 pool=gpu together in one z"}},
		"anywhere": {waits: []gang.Waiting{waiting("work", 0, short, "", nil, topology.NoLevel)},
			want: []string{"work-0: 2 pods x 8 nvidia.com/gpu since 1001 pool=gpu"}},
		"for admission, or while pods are made": {waits: []gang.Waiting{
			{Component: "work", Code: gang.CodeWaitingForAdmission}, {Component: "front", Code: gang.CodeCreating}}},
		"for a claim that does not exist": {waits: []gang.Waiting{func() gang.Waiting {
			w := waiting("work", 0, short, "", nil, 0)
			w.Refusal.Blocked = "volume claim models does not exist"
			return w
		}()}},
		"released meanwhile": {waits: []gang.Waiting{waiting("front", 0, short, "", nil, 0)},
			change: func(s *Source) { s.Pods[0].Spec.SchedulingGates = nil }},
		"with claims": {waits: []gang.Waiting{waiting("front", 0, short, "", nil, 0)},
			change: func(s *Source) { s.Pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
			want: []string{"front-0: 1 pod x no requests since 1000 pool=gpu together in one z barred: " +
				"pod g-front-0 uses resource claims, of which an autoscaler is told nothing"}},
		"labels that an autoscaler knows": {waits: []gang.Waiting{waiting("work", 0, short, "", topology.Path{"a"}, 1)},
			change: func(s *Source) { s.NewNodeLabels = []string{"z", "r"} },
			want:   []string{"work-0: 2 pods x 8 nvidia.com/gpu since 1001 z=a pool=gpu together in one r"}},
	} {
		s := source(tc.waits...)
		if tc.change != nil {
			tc.change(s)
		}
		if diff := cmp.Diff(tc.want, sketch(s.Gangs())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A placeholder requests what a pod of the gang requests, where such a pod may run, with the lowest priority that an autoscaler adds nodes for. It is
// not bound to hosts that have room already, and passes the Pod Security Standard of the operator's namespace.
func TestPlaceholder(t *testing.T) {
	pod := pods(1, "8")[0]
	pod.Namespace, pod.Labels = "team", map[string]string{"app": "llm"}
	pod.Spec.NodeSelector = map[string]string{"gpu": "h100"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m")}
	pod.Spec.Containers[0].Command = []string{"serve"}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "arch", Operator: corev1.NodeSelectorOpExists}}}
	pod.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term, term}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}}},
	}
	g := Gang{UID: "u", Name: "work-0", Kind: KindPlaceholders, Sets: SetsOf([]*corev1.Pod{pod, pod}, Where{Labels: map[string]string{"z": "a"}, Together: "z"})}
	ask := Ask{Name: g.Ask(), Gang: &g}
	got := ask.Placeholder(Index{0, 1}, "own", "pause", []string{"b", "a"})

	need := corev1.ResourceList{"cpu": resource.MustParse("250m"), "nvidia.com/gpu": resource.MustParse("8")}
	labels := map[string]string{LabelAsk: ask.Name, LabelGraphUID: "u", labelSet: "0"}
	term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a", "b"}})
	for what, pair := range map[string][2]any{
		"name":          {"capacity-" + ask.Name + "-0-1", got.Name},
		"labels":        {labels, got.Labels},
		"requests":      {need, got.Spec.Containers[0].Resources.Requests},
		"limits":        {corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}, got.Spec.Containers[0].Resources.Limits},
		"selector":      {map[string]string{"gpu": "h100", "z": "a"}, got.Spec.NodeSelector},
		"tolerations":   {pod.Spec.Tolerations, got.Spec.Tolerations},
		"class":         {PriorityClass, got.Spec.PriorityClassName},
		"node affinity": {[]corev1.NodeSelectorTerm{term, term}, got.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms},
		"together": {[]corev1.PodAffinityTerm{{TopologyKey: "z", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelAsk: ask.Name}}}},
			got.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution},
		"apart": {[]corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{LabelAsk: ask.Name, labelSet: "0"}}}}, got.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution},
		"command":  {[]string(nil), got.Spec.Containers[0].Command},
		"deadline": {int64(2 * Patience / time.Second), *got.Spec.ActiveDeadlineSeconds},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if len(ask.Gang.Sets[0].Template.Labels) > 0 {
		t.Error("the template of the gang was changed")
	}
}
