// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A release adds the pins, tells the pod its place and its gang, opens the one gate, and changes nothing else.
func TestRelease(t *testing.T) {
	term := func(keys ...string) (out corev1.NodeSelectorTerm) {
		for _, key := range keys {
			out.MatchExpressions = append(out.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists})
		}
		return out
	}
	onHost := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	hosted := func(term corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
		term.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"host-7"}}}
		return term
	}
	onNodes := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	and := func(term corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
		term.MatchFields = append(term.MatchFields, hosted(corev1.NodeSelectorTerm{}).MatchFields...)
		return term
	}
	rack := gang.Pin{Gang: "g-1", Labels: map[string]string{"zone-key": "a", "rack-key": "r0"}}
	host := gang.Pin{Gang: "g-1", Labels: rack.Labels, Node: "host-7"}
	spread := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "host"}}}

	cases := map[string]struct {
		pin gang.Pin
		// had is what a plain gated pod has more; want is what it has after that.
		had, want func(*corev1.Pod)
	}{
		"a plain pod": {pin: rack, want: func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil }},
		"gates of others stay": {
			pin: rack,
			had: func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "quota"})
			},
			want: func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} },
		},
		"its own selector, labels and annotations stay": {
			pin: rack,
			had: func(pod *corev1.Pod) {
				pod.Spec.NodeSelector, pod.Labels["app"], pod.Annotations["note"] = map[string]string{"gpu": "gb200"}, "llm", "mine"
			},
			want: func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil },
		},
		"to a host": {pin: host, want: func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates, pod.Spec.Affinity = nil, onHost(hosted(corev1.NodeSelectorTerm{}))
		}},
		"to a host, but for an alternative that allows no node": {
			pin: host,
			had: func(pod *corev1.Pod) { pod.Spec.Affinity = onHost(corev1.NodeSelectorTerm{}, term("z")) },
			want: func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates, pod.Spec.Affinity = nil, onHost(corev1.NodeSelectorTerm{}, hosted(term("z")))
			},
		},
		"to one of the hosts that it names itself": {
			pin: host,
			had: func(pod *corev1.Pod) { pod.Spec.Affinity = onHost(onNodes("host-1", "host-7"), onNodes("host-9")) },
			want: func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates, pod.Spec.Affinity = nil, onHost(and(onNodes("host-1", "host-7")), and(onNodes("host-9")))
			},
		},
		"to a host, in each alternative of its affinity": {
			pin: host,
			had: func(pod *corev1.Pod) {
				pod.Spec.Affinity = onHost(term("x", "y"), term("z"))
				pod.Spec.Affinity.PodAntiAffinity = spread
			},
			want: func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates, pod.Spec.Affinity = nil, onHost(hosted(term("x", "y")), hosted(term("z")))
				pod.Spec.Affinity.PodAntiAffinity = spread
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "p", Labels: map[string]string{"x": "y"},
				Annotations: map[string]string{render.AnnotationLevels: `{"zone":"zone-key","rack":"rack-key","block":"block-key"}`},
			}}
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
			if c.had != nil {
				c.had(pod)
			}
			api := fake.NewClientBuilder().WithObjects(pod).WithReturnManagedFields().Build()
			read := func() *corev1.Pod {
				got := &corev1.Pod{}
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			want := read()
			if err := (Placer{Client: api, Live: api}).Release(t.Context(), read(), c.pin); err != nil {
				t.Fatal(err)
			}
			got := read()
			c.want(want)
			if want.Spec.NodeSelector == nil {
				want.Spec.NodeSelector = map[string]string{}
			}
			want.Spec.NodeSelector["zone-key"], want.Spec.NodeSelector["rack-key"] = "a", "r0"
			want.Labels["nvidia.com/dynamo-topology.zone"], want.Labels["nvidia.com/dynamo-topology.rack"] = "a", "r0"
			want.Annotations[render.AnnotationGang] = "g-1"
			want.ResourceVersion, want.ManagedFields = got.ResourceVersion, got.ManagedFields
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if host := gang.PinnedHost(got); host != c.pin.Node {
				t.Errorf("it reads as pinned to %q", host)
			}
		})
	}
}

// A pod that is released already is left as it is. That it went to another place is an error: the rest of its gang must not go to this one, and
// with other hosts in the same rack it may be on one that is planned for another of them.
func TestReleasedBefore(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	pod.Spec.NodeSelector = map[string]string{"gpu": "gb200", "zone-key": "a", "rack-key": "r0"}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"h0"}},
		}}},
	}}}
	api := fake.NewClientBuilder().WithObjects(pod).Build()
	cases := map[string]struct {
		rack, node string
		want       error
	}{
		"there":           {rack: "r0"},
		"to another rack": {rack: "r1", want: provider.ErrElsewhere},
		"to this host":    {rack: "r0", node: "h0"},
		"to another host": {rack: "r0", node: "h1", want: provider.ErrElsewhere},
	}
	for name, c := range cases {
		gated := pod.DeepCopy() // as a stale cache has it
		gated.Spec.NodeSelector, gated.Spec.Affinity, gated.ResourceVersion = nil, nil, "1"
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		pin := gang.Pin{Gang: "g-1", Labels: map[string]string{"zone-key": "a", "rack-key": c.rack}, Node: c.node}
		if err := (Placer{Client: api, Live: api}).Release(t.Context(), gated, pin); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		got := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), got); err != nil || !maps.Equal(got.Spec.NodeSelector, pod.Spec.NodeSelector) {
			t.Errorf("%s: it is pinned to %v: %v", name, got.Spec.NodeSelector, err)
		}
	}
}
