// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// podOf requests so many GPUs, with a PriorityClass.
func podOf(gpus int64, class string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class, Containers: []corev1.Container{{}}}}
	if gpus > 0 {
		amount := corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
	}
	return pod
}

// quotaOf has a limit, of which so much is used.
func quotaOf(name string, of corev1.ResourceName, hard, used int64, scopes ...corev1.ScopedResourceSelectorRequirement) corev1.ResourceQuota {
	q := corev1.ResourceQuota{}
	q.Name = name
	q.Spec.Hard = corev1.ResourceList{of: *resource.NewQuantity(hard, resource.DecimalSI)}
	q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{of: *resource.NewQuantity(used, resource.DecimalSI)}
	if len(scopes) > 0 {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: scopes}
	}
	return q
}

// gangOf is a replica of a deployment with missing pods of so many GPUs each.
func gangOf(graph string, ordinal int32, missing, gpus int64, more ...func(*gang)) *gang {
	g := &gang{Want: Want{
		Key: Key{Graph: types.UID(graph), GraphName: graph, Group: graph, Ordinal: ordinal}, Name: fmt.Sprintf("%s-%d", graph, ordinal), Ready: true,
		Missing: []Pods{{ChargeOf(podOf(gpus, "")), missing}},
	}, known: true, missing: missing, created: time.Unix(int64(graph[len(graph)-1]), 0)}
	for _, change := range more {
		change(g)
	}
	return g
}

func exists(g *gang)   { g.Exists = true }
func succeeds(g *gang) { g.Succeeds = true }
func rests(g *gang)    { g.resting = true }
func others(g *gang)   { g.Exists, g.Others = true, true }
func notReady(g *gang) { g.Ready = false }
func insists(g *gang)  { g.insists = true }
func urgent(g *gang)   { g.priority = 10 }
func high(g *gang)     { g.Missing[0].Charge = ChargeOf(podOf(8, "high")) }

// said are the decisions in words, by name.
func said(gangs []*gang, decisions map[Key]Decision) (out []string) {
	for _, g := range gangs {
		d := decisions[g.Key]
		var words []string
		if d.Create {
			words = append(words, "create")
		}
		if d.GiveBack {
			words = append(words, "give back")
		}
		if d.Lack != nil {
			text := "lacks " + d.Lack.Quota
			if len(d.Lack.Before) > 0 {
				text += " behind " + strings.Join(d.Lack.Before, "+")
			}
			words = append(words, text)
		}
		out = append(out, g.Name+": "+strings.Join(words, ", "))
	}
	slices.Sort(out)
	return out
}

func TestEvaluate(t *testing.T) {
	gpus := func(hard, used int64) []corev1.ResourceQuota {
		return []corev1.ResourceQuota{quotaOf("q", "requests."+gpu, hard, used)}
	}
	for name, c := range map[string]struct {
		gangs   []*gang
		quotas  []corev1.ResourceQuota
		holder  owner
		refused bool
		want    []string
	}{
		"a replica of three fits": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g1", 1, 2, 8), gangOf("g1", 2, 2, 8)}, quotas: gpus(16, 0),
			want: []string{"g1-0: create", "g1-1: lacks q", "g1-2: lacks q behind g1-1"},
		},
		"half of each exists: one is completed, the other gives back": {
			gangs: []*gang{gangOf("g1", 0, 1, 8, exists), gangOf("g1", 1, 1, 8, exists)}, quotas: gpus(24, 16),
			want: []string{"g1-0: create", "g1-1: give back, lacks q"},
		},
		"half of each exists and nothing is left: both give back": {
			gangs: []*gang{gangOf("g1", 0, 1, 8, exists), gangOf("g1", 1, 1, 8, exists)}, quotas: gpus(16, 16),
			want: []string{"g1-0: give back, lacks q", "g1-1: give back, lacks q behind g1-0"},
		},
		"one deployment after the other": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g2", 0, 2, 8), gangOf("g1", 1, 2, 8)}, quotas: gpus(64, 0),
			want: []string{"g1-0: create", "g1-1: create", "g2-0: "},
		},
		"what is left is kept for the first": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g2", 0, 1, 8)}, quotas: gpus(16, 8),
			want: []string{"g1-0: lacks q", "g2-0: lacks q behind g1-0"},
		},
		"what is larger than the quota keeps nothing": {
			gangs: []*gang{gangOf("g1", 0, 4, 8), gangOf("g2", 0, 1, 8)}, quotas: gpus(16, 8),
			want: []string{"g1-0: lacks q", "g2-0: create"},
		},
		"what needs none of it is created": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g2", 0, 3, 0)}, quotas: gpus(16, 8),
			want: []string{"g1-0: lacks q", "g2-0: create"},
		},
		"a successor before growth, of an older deployment too": {
			gangs: []*gang{gangOf("g1", 1, 2, 8), gangOf("g2", 0, 2, 8, succeeds)}, quotas: gpus(16, 0),
			want: []string{"g1-1: lacks q behind ", "g2-0: create"}[1:],
		},
		"quota is kept for a successor whose predecessor is leaving": {
			gangs: []*gang{gangOf("g1", 1, 2, 8), gangOf("g2", 0, 2, 8, succeeds, notReady)}, quotas: gpus(16, 8),
			want: []string{"g1-1: lacks q behind g2-0", "g2-0: lacks q"},
		},
		"priority before age": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g2", 0, 2, 8, urgent)}, quotas: gpus(16, 0),
			want: []string{"g2-0: create"},
		},
		"what was refused gives back, and does not hold up others": {
			gangs: []*gang{gangOf("g1", 0, 1, 8, exists, rests), gangOf("g2", 0, 2, 8)}, quotas: gpus(64, 0),
			want: []string{"g1-0: give back", "g2-0: create"},
		},
		"the turn is kept": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g2", 0, 1, 8, exists)}, quotas: gpus(64, 0), holder: owner{"g2", "g2"},
			want: []string{"g1-0: ", "g2-0: create"},
		},
		"pods that another controller creates may be counted before they are seen": {
			gangs: []*gang{gangOf("g1", 0, 2, 8, others), gangOf("g1", 1, 2, 8)}, quotas: gpus(16, 8), holder: owner{"g1", "g1"},
			want: []string{"g1-0: create", "g1-1: lacks q behind g1-0"},
		},
		"they give back without the turn": {
			gangs: []*gang{gangOf("g1", 0, 2, 8, others), gangOf("g1", 1, 2, 8)}, quotas: gpus(16, 8),
			want: []string{"g1-0: give back, lacks q", "g1-1: lacks q behind g1-0"},
		},
		"a quota of another class does not count": {
			gangs: []*gang{gangOf("g1", 0, 2, 8, high), gangOf("g2", 0, 2, 8)},
			quotas: []corev1.ResourceQuota{quotaOf("few-high", "pods", 1, 0, corev1.ScopedResourceSelectorRequirement{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"},
			})},
			want: []string{"g1-0: lacks few-high", "g2-0: create"},
		},
		"without a quota, after a refusal: one after the other": {
			gangs: []*gang{gangOf("g1", 0, 2, 8), gangOf("g2", 0, 1, 8, exists)}, refused: true,
			want: []string{"g1-0: ", "g2-0: create"},
		},
		"after a refusal growth waits for a successor whose predecessor is leaving, and gives back": {
			gangs: []*gang{gangOf("g1", 1, 1, 8, exists), gangOf("g2", 0, 2, 8, succeeds, notReady)}, refused: true,
			want: []string{"g1-1: give back", "g2-0: "},
		},
		"after a refusal other successors do not wait for it": {
			gangs: []*gang{gangOf("g1", 0, 2, 8, succeeds, notReady), gangOf("g2", 0, 2, 8, succeeds), gangOf("g3", 0, 2, 8)}, refused: true,
			want: []string{"g1-0: ", "g2-0: create", "g3-0: "},
		},
		"before a refusal growth does not wait for it": {
			gangs: []*gang{gangOf("g1", 1, 2, 8), gangOf("g2", 0, 2, 8, succeeds, notReady)},
			want:  []string{"g1-1: create", "g2-0: "},
		},
		"growth waits for a refused successor for a while": {
			gangs: []*gang{gangOf("g1", 1, 2, 8), gangOf("g2", 0, 2, 8, succeeds, rests, insists)}, refused: true,
			want: []string{"g1-1: ", "g2-0: "},
		},
		"growth does not wait for ever": {
			gangs: []*gang{gangOf("g1", 1, 2, 8), gangOf("g2", 0, 2, 8, succeeds, rests)}, refused: true,
			want: []string{"g1-1: create", "g2-0: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			decisions, _ := (&line{gangs: c.gangs, quotas: c.quotas, holder: c.holder, refused: c.refused}).evaluate()
			got := said(c.gangs, decisions)
			if len(c.want) < len(got) { // the case is about some of them
				got = slices.DeleteFunc(got, func(line string) bool { return !slices.Contains(c.want, line) })
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The message has the words of the API server, and who waits before the gang.
func TestLackInWords(t *testing.T) {
	gangs := []*gang{}
	for i := range int32(6) {
		gangs = append(gangs, gangOf("g1", i, 2, 8))
	}
	decisions, _ := (&line{gangs: gangs, quotas: []corev1.ResourceQuota{quotaOf("q", "requests."+gpu, 16, 12)}}).evaluate()
	for ordinal, want := range map[int]string{
		0: "exceeded quota: q, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=12, limited: requests.nvidia.com/gpu=16",
		1: "; g1-0 waits before it",
		3: "; g1-0, g1-1, g1-2 wait before it",
		5: "; g1-0, g1-1, g1-2 and 2 others wait before it",
	} {
		if got := decisions[gangs[ordinal].Key].Lack.Error(); !strings.HasSuffix(got, want) {
			t.Errorf("gang %d: %q lacks %q", ordinal, got, want)
		}
	}
}
