// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

func TestRequest(t *testing.T) {
	mixed := func(replicas int32) []*trellisv1alpha1.ScalingGroup {
		return []*trellisv1alpha1.ScalingGroup{
			newGroup("front", 1, 1, frozen("zone", "")), newGroup("work", replicas, 2, frozen("zone", "rack")),
		}
	}
	withoutRack := hall.DeepCopy()
	withoutRack.Spec.Levels = withoutRack.Spec.Levels[:1]
	terminating := func(pod *corev1.Pod) *corev1.Pod { pod.DeletionTimestamp = ptr.To(metav1.Now()); return pod }

	outdated := func(pod *corev1.Pod) *corev1.Pod { pod.Labels[render.LabelRevision] = "0"; return pod }
	surging := func(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
		for _, sg := range groups {
			sg.Spec.Rollout = &trellisv1alpha1.RolloutStrategy{MaxUnavailable: intstr.FromInt32(0), MaxSurge: intstr.FromInt32(1)}
		}
		return groups
	}
	pausing := func(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
		for _, sg := range groups {
			sg.Spec.Step = &trellisv1alpha1.RolloutStep{Paused: true}
		}
		return groups
	}

	cases := map[string]struct {
		groups    []*trellisv1alpha1.ScalingGroup
		pods      func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod
		topology  *grovev1alpha1.ClusterTopology
		releasing map[string]topology.Path
		want      []string
	}{
		"all gated: everything waits, nothing anchors": {
			groups: mixed(1), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0), newPod(g[1], 0, 1)}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="" hint="")`,
			},
		},
		"pods not made yet are counted": {
			groups: mixed(2), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0)}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 3`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="" hint="") waits(1 pods=2 anchor="" hint="")`,
				"2 incomplete",
			},
		},
		"a released member anchors the graph; a scaled-out replica waits": {
			groups: mixed(2), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{
					newPod(g[0], 0, 0, "a"), newPod(g[1], 0, 0, "a", "1"), newPod(g[1], 0, 1, "a", "1"), newPod(g[1], 1, 0), newPod(g[1], 1, 1),
				}
			},
			want: []string{
				`graph anchor="a" creating=false placed 2 of 3`,
				`front required=-1 anchor="" placed=1`,
				`work required=1 anchor="" placed=1 waits(1 pods=2 anchor="" hint="")`,
			},
		},
		"ordinals with a gap: what is there counts, nothing else is wanted": {
			groups: mixed(2), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{
					newPod(g[0], 0, 0, "a"), newPod(g[1], 0, 0, "a", "1"), newPod(g[1], 0, 1, "a", "1"), newPod(g[1], 2, 0, "a", "2"), newPod(g[1], 2, 1, "a", "2"),
				}
			},
			want: []string{
				`graph anchor="a" creating=false placed 3 of 3`,
				`front required=-1 anchor="" placed=1`,
				`work required=1 anchor="" placed=2`,
			},
		},
		"a replica on its way out in the middle will be followed; the highest one will not": {
			groups: mixed(1), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{
					newPod(g[0], 0, 0, "a"), newPod(g[1], 1, 0, "a", "1"), newPod(g[1], 1, 1, "a", "1"),
					terminating(newPod(g[1], 3, 0, "a", "2")), terminating(newPod(g[1], 3, 1, "a", "2")),
				}
			},
			want: []string{
				`graph anchor="a" creating=false placed 2 of 2`,
				`front required=-1 anchor="" placed=1`,
				`work required=1 anchor="" placed=1`,
			},
		},
		"one more than wanted, beside an update: it waits and does not count": {
			groups: surging(mixed(1)), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{
					newPod(g[0], 0, 0, "a"), outdated(newPod(g[1], 0, 0, "a", "1")), outdated(newPod(g[1], 0, 1, "a", "1")), newPod(g[1], 1, 0), newPod(g[1], 1, 1),
				}
			},
			want: []string{
				`graph anchor="a" creating=false placed 2 of 2`,
				`front required=-1 anchor="" placed=1`,
				`work required=1 anchor="" placed=1 waits(1 pods=2 anchor="" hint="")`,
			},
		},
		"a replica of an older size is whole": {
			groups: mixed(1), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				three := newGroup("work", 1, 3, frozen("zone", "rack"))
				return []*corev1.Pod{
					newPod(g[0], 0, 0, "a"), outdated(newPod(three, 0, 0, "a", "1")), outdated(newPod(three, 0, 1, "a", "1")), outdated(newPod(three, 0, 2, "a", "1")),
				}
			},
			want: []string{
				`graph anchor="a" creating=false placed 2 of 2`,
				`front required=-1 anchor="" placed=1`,
				`work required=1 anchor="" placed=1`,
			},
		},
		"a release cut short: the rest of the replica is anchored where the first part went": {
			groups: mixed(1), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0, "a", "1"), newPod(g[1], 0, 1)}
			},
			want: []string{
				`graph anchor="a" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=1 anchor="a/1" hint="")`,
			},
		},
		"a release not yet seen in the pods counts": {
			groups: mixed(1), topology: hall, releasing: map[string]topology.Path{"g-front-0": {"b"}},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0), newPod(g[1], 0, 1)}
			},
			want: []string{
				`graph anchor="b" creating=false placed 1 of 2`,
				`front required=-1 anchor="" placed=1`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="" hint="")`,
			},
		},
		"terminating members do not anchor, and their replica is left to be recreated; the others wait for it": {
			groups: mixed(1), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), terminating(newPod(g[1], 0, 0, "a", "1")), terminating(newPod(g[1], 0, 1, "a", "1"))}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0`,
			},
		},
		"what waits and is of an older revision is recreated first, so the gang waits for it": {
			groups: mixed(1), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{outdated(newPod(g[0], 0, 0)), newPod(g[1], 0, 0), newPod(g[1], 0, 1)}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="" hint="")`,
				"1 incomplete",
			},
		},
		"while the update is paused, not when it is of two revisions": {
			groups: pausing(mixed(1)), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0), outdated(newPod(g[1], 0, 1))}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="" hint="")`,
				"1 incomplete",
			},
		},
		"while the update is paused, one of a former size when some of it is released": {
			groups: pausing(mixed(1)), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				pods, former := []*corev1.Pod{newPod(g[0], 0, 0)}, newGroup("work", 1, 3, frozen("zone", "rack"))
				for index, path := range [][]string{{"a", "1"}, nil, nil} {
					pod := outdated(newPod(former, 0, int32(index), path...))
					pod.Labels[render.LabelReplicaSize] = "3"
					pods = append(pods, pod)
				}
				return pods
			},
			want: []string{
				`graph anchor="a" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="a/1" hint="")`,
			},
		},
		"while the update is paused, one of a former size when a release of it is under way": {
			groups: pausing(mixed(1)), topology: hall, releasing: map[string]topology.Path{"g-work-0-0": {"a", "1"}},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				pods, former := []*corev1.Pod{newPod(g[0], 0, 0)}, newGroup("work", 1, 3, frozen("zone", "rack"))
				for index := range int32(3) {
					pod := outdated(newPod(former, 0, index))
					pod.Labels[render.LabelReplicaSize] = "3"
					pods = append(pods, pod)
				}
				return pods
			},
			want: []string{
				`graph anchor="a" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="a/1" hint="")`,
			},
		},
		"while the update is paused it is placed as it is": {
			groups: pausing(mixed(1)), topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{outdated(newPod(g[0], 0, 0)), newPod(g[1], 0, 0), newPod(g[1], 0, 1)}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=0 waits(0 pods=2 anchor="" hint="")`,
			},
		},
		"a single-node service with a level of its own is anchored by its running replicas": {
			groups:   []*trellisv1alpha1.ScalingGroup{newGroup("decode", 2, 1, frozen("zone", "rack"))},
			topology: hall,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0, "a", "7"), newPod(g[0], 1, 0)}
			},
			want: []string{
				`graph anchor="a" creating=false placed 1 of 2`,
				`decode required=1 anchor="a/7" placed=1 waits(1 pods=1 anchor="" hint="")`,
			},
		},
		"a lost level holds new replicas of the service that needs it, and only those": {
			groups: mixed(2), topology: withoutRack,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0, "a", "1"), newPod(g[1], 0, 1, "a", "1"), newPod(g[1], 1, 0), newPod(g[1], 1, 1)}
			},
			want: []string{
				`graph anchor="a" creating=false placed 1 of 3`,
				`front required=-1 anchor="" placed=0 waits(0 pods=1 anchor="" hint="")`,
				`work required=1 anchor="" placed=1`,
				`blocked work-1 LevelGone`,
			},
		},
		"a lost level of one service holds the whole base gang": {
			groups: mixed(1), topology: withoutRack,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0), newPod(g[1], 0, 1)}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 2`,
				`front required=-1 anchor="" placed=0`,
				`work required=1 anchor="" placed=0`,
				`blocked work-0 LevelGone`,
				`blocked front-0 BaseGangWaits`,
			},
		},
		"no topology at all holds everything that is not anchored": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("work", 1, 2, frozen("", "rack"))}, topology: nil,
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[0], 0, 1)}
			},
			want: []string{
				`graph anchor="" creating=false placed 0 of 1`,
				`work required=1 anchor="" placed=0`,
				`blocked work-0 LevelGone`,
			},
		},
		"an unconstrained single-pod service is not ours to place": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("front", 3, 1, nil)}, topology: hall,
			pods: func([]*trellisv1alpha1.ScalingGroup) []*corev1.Pod { return nil },
			want: []string{`graph anchor="" creating=false placed 0 of 0`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
			got := lines(NewRequest(Observation{DGD: dgd, Groups: c.groups, Pods: c.pods(c.groups), ClusterTopology: c.topology, Releasing: c.releasing}))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestWaitsForScalingGroups(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{
		{Name: "front"}, {Name: "idle", Replicas: ptr.To[int32](0)}, {Name: "work"},
	}}}
	groups := []*trellisv1alpha1.ScalingGroup{newGroup("front", 1, 1, frozen("zone", ""))}
	if !NewRequest(Observation{DGD: dgd, Groups: groups, ClusterTopology: hall}).Creating {
		t.Error("service work has no scaling group yet, but the request is complete")
	}
	groups = append(groups, newGroup("work", 1, 1, frozen("zone", "")))
	if NewRequest(Observation{DGD: dgd, Groups: groups, ClusterTopology: hall}).Creating {
		t.Error("a service without replicas needs no scaling group to be complete")
	}
}

func TestAvailable(t *testing.T) {
	levels := func(pairs ...string) *grovev1alpha1.ClusterTopology {
		ct := &grovev1alpha1.ClusterTopology{}
		for i := 0; i < len(pairs); i += 2 {
			ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: pairs[i], Key: pairs[i+1]})
		}
		return ct
	}
	cases := map[string]struct {
		now    *grovev1alpha1.ClusterTopology
		domain string
		want   bool
	}{
		"unchanged":                    {levels("zone", "z", "rack", "r"), "rack", true},
		"no level is always available": {nil, "", true},
		"topology is gone":             {nil, "rack", false},
		"level is gone":                {levels("zone", "z"), "rack", false},
		"level has another key":        {levels("zone", "z", "rack", "other"), "rack", false},
		"order is reversed":            {levels("rack", "r", "zone", "z"), "rack", false},
		"a level was put in between":   {levels("zone", "z", "block", "b", "rack", "r"), "rack", true},
		"a broader level is gone":      {levels("rack", "r"), "rack", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Available(frozen("zone", "rack"), c.now, c.domain); got != c.want {
				t.Errorf("Available = %v, want %v", got, c.want)
			}
		})
	}
}
