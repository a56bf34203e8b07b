// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// claiming is a graph of one pod with a claim.
func claiming() gang.Observation {
	o := asking(1, 1, 0)
	o.Pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
	o.Groups[0].Spec.Roles[0].Template.Spec.ResourceClaims = o.Pods[0].Spec.ResourceClaims
	return o
}

// ofPool is a graph of one pod whose topology describes the nodes of a pool.
func ofPool() gang.Observation {
	o := asking(1, 1, 0)
	o.Groups[0].Spec.Topology = o.Groups[0].Spec.Topology.DeepCopy()
	o.Groups[0].Spec.Topology.NodeSelector = map[string]string{"pool": "p"}
	return o
}

// becomes changes a node of the cluster.
func (p *picky) becomes(now *corev1.Node, change func(now *corev1.Node)) {
	old := now.DeepCopy()
	change(now)
	p.s.ledger.nodeChanged(old, now)
}

func relabelled(now *corev1.Node) { now.Labels["driver"] = "2" }
func cordoned(now *corev1.Node)   { now.Spec.Unschedulable = true }
func tainted(now *corev1.Node) {
	now.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
}
func unready(now *corev1.Node) { now.Status.Conditions[0].Status = corev1.ConditionFalse }
func larger(now *corev1.Node)  { now.Status.Allocatable = hostOf("", "", 2).Status.Allocatable }
func movedTo(r string) func(*corev1.Node) {
	return func(now *corev1.Node) { now.Labels["r"] = r }
}

// back undoes a change: a node that had it is as it was.
func back(p *picky, name string, change func(*corev1.Node)) {
	old := hostOf(name, name[:1], 1)
	change(old)
	p.s.ledger.nodeChanged(old, hostOf(name, name[:1], 1))
}

// One rack is refused, to a pod that is pinned by its labels, or one host. Where the gang goes next depends on what happens meanwhile: what only makes the rack smaller, or has nothing to do with
// where pods fit, is no sign that it would not be refused there again.
func TestWhatEndsARefusal(t *testing.T) {
	a0 := func(change func(*corev1.Node)) func(*picky) {
		return func(p *picky) { p.becomes(hostOf("a0", "a", 1), change) }
	}
	leaves := func(p *picky) { p.s.podGone(onNode("other", "a0", begin, 0)) }
	rack, host := func() gang.Observation { return asking(1, 1, 0) }, claiming
	others, otherHosts := []string{"b0", "b1"}, []string{"a1", "b0", "b1"}
	for name, tc := range map[string]struct {
		of     func() gang.Observation
		taken  []string
		happen func(*picky)
		want   string
	}{
		"nothing: the other rack":                                    {rack, nil, func(*picky) {}, "31s bound in b"},
		"nothing, and there is no other rack: when the time is over": {rack, others, func(*picky) {}, "1m0s bound in a"},
		"a node of the rack becomes larger":                          {rack, others, a0(larger), "31s bound in a"},
		"a node of the rack becomes smaller":                         {rack, others, func(p *picky) { p.becomes(hostOf("a0", "a", 2), func(n *corev1.Node) { *n = *hostOf("a0", "a", 1) }) }, "1m0s bound in a"},
		"a node of the rack is relabelled":                           {rack, others, a0(relabelled), "1m0s bound in a"},
		"a node of the rack is cordoned":                             {rack, others, a0(cordoned), "1m0s bound in a"},
		"a node of the rack is uncordoned":                           {rack, nil, func(p *picky) { back(p, "a0", cordoned) }, "31s bound in a"},
		"a node of the rack is tainted":                              {rack, others, a0(tainted), "1m0s bound in a"},
		"a node of the rack is no longer tainted":                    {rack, nil, func(p *picky) { back(p, "a0", tainted) }, "31s bound in a"},
		"a node of the rack is not Ready":                            {rack, others, a0(unready), "1m0s bound in a"},
		"a node of the rack becomes Ready":                           {rack, nil, func(p *picky) { back(p, "a0", unready) }, "31s bound in a"},
		"a node of the rack is deleted":                              {rack, others, func(p *picky) { p.s.ledger.nodeGone(hostOf("a0", "a", 1)) }, "1m0s bound in a"},
		"a node is added to the rack":                                {rack, others, func(p *picky) { p.s.ledger.nodeChanged(nil, hostOf("a2", "a", 1)) }, "31s bound in a"},
		"a node moves to the rack":                                   {rack, others, func(p *picky) { p.becomes(hostOf("b0", "b", 1), movedTo("a")) }, "31s bound in a"},
		"a node leaves the rack":                                     {rack, []string{"a0", "b0", "b1"}, a0(movedTo("b")), "1m0s bound in a"},
		"a node of another rack becomes larger":                      {rack, nil, func(p *picky) { p.becomes(hostOf("b0", "b", 1), larger) }, "31s bound in b"},
		"a pod leaves the rack":                                      {rack, nil, leaves, "31s bound in b"},
		"a pod leaves the rack, and there is no other":               {rack, others, leaves, "1m0s bound in a"},
		"a node is added to the rack of the pool":                    {ofPool, others, func(p *picky) { p.s.ledger.nodeChanged(nil, hostOf("a2", "a", 1)) }, "31s bound in a"},
		"a node of another pool is added to a rack of that name": {ofPool, others, func(p *picky) {
			added := hostOf("a2", "a", 1)
			added.Labels["pool"] = "q"
			p.s.ledger.nodeChanged(nil, added)
		}, "1m0s bound in a"},
		"nothing: another host":                        {host, nil, func(*picky) {}, "31s bound in a1"},
		"nothing, and there is no other host":          {host, otherHosts, func(*picky) {}, "1m0s bound in a0"},
		"the host is relabelled":                       {host, nil, a0(relabelled), "31s bound in a0"},
		"another host is relabelled":                   {host, otherHosts, func(p *picky) { p.becomes(hostOf("a1", "a", 1), relabelled) }, "1m0s bound in a0"},
		"a pod leaves the host: it comes last":         {host, nil, leaves, "31s bound in a1"},
		"a pod leaves the host, and there is no other": {host, otherHosts, leaves, "31s bound in a0"},
	} {
		t.Run(name, func(t *testing.T) {
			refused := false
			p := newPicky(t, nil)
			p.byLabels = strings.HasSuffix(tc.want, " in a") || strings.HasSuffix(tc.want, " in b")
			p.refuses = func(string) string {
				if refused {
					return ""
				}
				refused = true
				return noDevice
			}
			p.taken(tc.taken...)
			happened := false
			p.live(func() gang.Observation {
				if refused && !happened {
					happened = true
					tc.happen(p)
				}
				return tc.of()
			}, 5*time.Minute)
			if last := p.log[len(p.log)-1]; last != tc.want {
				t.Errorf("%s, want %s; all:\n%s", last, tc.want, strings.Join(p.log, "\n"))
			}
		})
	}
}
