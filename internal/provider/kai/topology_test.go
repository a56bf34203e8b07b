// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

func TestCompareTopology(t *testing.T) {
	ours := func(ct *grovev1alpha1.ClusterTopology) *kai.Topology {
		out, err := kai.RenderTopology(ct)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	foreign := ours(providertest.Topology())
	foreign.OwnerReferences = nil
	otherOwner := ours(providertest.Topology())
	otherOwner.OwnerReferences[0].UID = "an-earlier-topology"
	refer := func(ct *grovev1alpha1.ClusterTopology) {
		ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{
			{SchedulerName: "other", TopologyReference: "other"}, {SchedulerName: kai.SchedulerName, TopologyReference: "site"},
		}
	}
	lessLevels := func(ct *grovev1alpha1.ClusterTopology) { ct.Spec.Levels = ct.Spec.Levels[1:] }
	cases := map[string]struct {
		change []func(*grovev1alpha1.ClusterTopology)
		have   *kai.Topology
		want   kai.TopologyStep
		words  []string
	}{
		"absent":                           {want: kai.Create},
		"ours":                             {have: ours(providertest.Topology()), want: kai.InSync},
		"ours, levels changed":             {change: []func(*grovev1alpha1.ClusterTopology){lessLevels}, have: ours(providertest.Topology()), want: kai.Replace, words: []string{"example.com/zone > example.com/block"}},
		"foreign, the same":                {have: foreign, want: kai.InSync},
		"foreign, differs":                 {change: []func(*grovev1alpha1.ClusterTopology){lessLevels}, have: foreign, want: kai.Drifted, words: []string{"left unchanged"}},
		"of an earlier topology, differs":  {change: []func(*grovev1alpha1.ClusterTopology){lessLevels}, have: otherOwner, want: kai.Drifted},
		"referenced, absent":               {change: []func(*grovev1alpha1.ClusterTopology){refer}, want: kai.Drifted, words: []string{`"site"`, "create it"}},
		"referenced, the same":             {change: []func(*grovev1alpha1.ClusterTopology){refer}, have: foreign, want: kai.InSync},
		"referenced and ours, but differs": {change: []func(*grovev1alpha1.ClusterTopology){refer, lessLevels}, have: ours(providertest.Topology()), want: kai.Drifted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ct := providertest.Topology()
			for _, change := range c.change {
				change(ct)
			}
			got, why := kai.CompareTopology(ct, c.have)
			if got != c.want || (why == "") != (got == kai.InSync) {
				t.Errorf("got %s (%s), want %s", got, why, c.want)
			}
			for _, word := range c.words {
				if !strings.Contains(why, word) {
					t.Errorf("%q does not say %q", why, word)
				}
			}
		})
	}
}

func TestReference(t *testing.T) {
	ct := providertest.Topology()
	if name, managed := kai.Reference(ct); name != ct.Name || !managed {
		t.Errorf("without a reference: %q %v", name, managed)
	}
	ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{{SchedulerName: kai.SchedulerName, TopologyReference: "site"}}
	if name, managed := kai.Reference(ct); name != "site" || managed {
		t.Errorf("with a reference: %q %v", name, managed)
	}
}

func TestTopologyThatKAIRefuses(t *testing.T) {
	hostFirst := providertest.Topology()
	hostFirst.Spec.Levels[0], hostFirst.Spec.Levels[3] = hostFirst.Spec.Levels[3], hostFirst.Spec.Levels[0]
	long := providertest.Topology()
	long.Spec.Levels[1].Key = strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)
	for ct, word := range map[*grovev1alpha1.ClusterTopology]string{hostFirst: "put it last", long: "317"} {
		if _, err := kai.RenderTopology(ct); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want it to say %q", err, word)
		}
	}
}

func TestWhyWaiting(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Unix(int64(minute)*60, 0) }
	condition := func(status, reason string, minute int, messages ...string) kai.SchedulingCondition {
		c := kai.SchedulingCondition{Type: "UnschedulableOnNodePool", Status: status, Reason: reason, Message: "in short", LastTransitionTime: at(minute)}
		for _, m := range messages {
			c.Reasons = append(c.Reasons, kai.Reason{Reason: "PodSchedulingErrors", Message: m})
		}
		return c
	}
	cases := map[string]struct {
		conditions []kai.SchedulingCondition
		want       kai.Pending
		silent     bool
	}{
		"nothing said":       {silent: true},
		"no longer so":       {conditions: []kai.SchedulingCondition{condition("False", "OverLimit", 1)}, silent: true},
		"the message":        {conditions: []kai.SchedulingCondition{condition("True", "QueueDoesNotExist", 1)}, want: kai.Pending{Reason: "QueueDoesNotExist", Message: "KAI: in short", Anywhere: true}},
		"details win":        {conditions: []kai.SchedulingCondition{condition("True", "OverLimit", 1, "rack r1 holds 3 of 4", "rack r1 holds 3 of 4", "rack r2 holds 1 of 4")}, want: kai.Pending{Reason: "OverLimit", Message: "KAI: rack r1 holds 3 of 4; rack r2 holds 1 of 4", Anywhere: true}},
		"reason from detail": {conditions: []kai.SchedulingCondition{condition("True", "", 1, "x")}, want: kai.Pending{Reason: "PodSchedulingErrors", Message: "KAI: x"}},
		"the latest":         {conditions: []kai.SchedulingCondition{condition("True", "Late", 5), condition("True", "Early", 1)}, want: kai.Pending{Reason: "Late", Message: "KAI: in short", Since: at(5)}},
		"bounded":            {conditions: []kai.SchedulingCondition{condition("True", "Long", 1, strings.Repeat("x", 9000))}, want: kai.Pending{Reason: "Long", Message: "KAI: " + strings.Repeat("x", 504) + "..."}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !c.silent && c.want.Since.IsZero() {
				c.want.Since = at(1)
			}
			got, said := kai.WhyWaiting(&kai.PodGroup{Status: kai.PodGroupStatus{SchedulingConditions: c.conditions}})
			if diff := cmp.Diff(c.want, got); diff != "" || said == c.silent {
				t.Errorf("said %v (-want +got):\n%s", said, diff)
			}
		})
	}
}
