// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// TestWaitingMessage shows what the condition Placed says in each situation: one cause, once, in at most 200 bytes.
func TestWaitingMessage(t *testing.T) {
	short := func(change func(*placement.Refusal)) *placement.Refusal {
		r := &placement.Refusal{
			Code: placement.CodeInsufficientCapacity, Level: 2, LevelName: "rack", Within: topology.Path{"zone-0"},
			Need: []placement.Need{{Pods: 4, Requests: []topology.Request{{Name: "nvidia.com/gpu", Amount: 8}}}},
			Closest: &placement.Closest{Domain: topology.Path{"zone-0", "block-1", "rack-2"}, Holds: 3, Of: 4, Hosts: 4,
				Excluded: []placement.Excluded{{Reason: topology.Exclusion{Kind: topology.KindCordoned}, Hosts: 1}}},
			OthersFewer: 11,
		}
		if change != nil {
			change(r)
		}
		return r
	}
	of := func(component string, ordinal int, r *placement.Refusal) Waiting {
		return Waiting{Component: component, Ordinal: ordinal, Code: r.Code, Message: r.Message(), Refusal: r}
	}
	base := &placement.Refusal{
		Code: placement.CodeInsufficientCapacity, Gang: "base gang", Level: 0, LevelName: "zone",
		Need:    []placement.Need{{Pods: 4, Requests: []topology.Request{{Name: "nvidia.com/gpu", Amount: 8}}}, {Pods: 1}},
		Closest: &placement.Closest{Domain: topology.Path{"zone-0"}, Holds: 1, Of: 5}, Cause: short(func(r *placement.Refusal) { r.Gang = "Worker-0" }),
	}
	head := short(func(r *placement.Refusal) {
		r.Gang, r.Cause = "Decode", short(func(r *placement.Refusal) {
			r.Gang, r.Within = "Decode-1", topology.Path{"zone-0", "block-1", "rack-2"}
		})
	})
	anchored := func(n int) (list []Waiting) {
		for i := range n {
			list = append(list, of("Worker", 3+i, short(func(r *placement.Refusal) { r.Elsewhere = topology.Path{"zone-1"} })))
		}
		return list
	}
	gaps := []Waiting{of("Decode", 2, short(nil)), of("Decode", 4, short(nil)), of("Decode", 5, short(nil)), of("Prefill", 0, short(nil)), of("Prefill", 1, short(nil))}
	many := make([]Waiting, 12)
	for i := range many {
		many[i] = of("Worker", i, short(nil))
	}
	long := make([]Waiting, 5)
	for i := range long {
		long[i] = of("a-service-with-a-name-that-is-as-long-as-a-name-may-ever-be-here", i, short(nil))
	}
	var out strings.Builder
	for _, tc := range []struct {
		title   string
		waiting []Waiting
	}{
		{"one replica", []Waiting{of("Worker", 3, short(nil))}},
		{"many of one cause", many},
		{"ordinals with gaps", gaps},
		{"long names", long},
		{"two causes", []Waiting{of("Decode", 0, short(nil)), of("Prefill", 0, short(func(r *placement.Refusal) { r.Need[0].Pods = 2 }))}},
		{"what follows from another comes second", []Waiting{
			{Component: "Frontend", Code: placement.CodeBaseGangWaits, Message: "waits for the base gang: needs", Refusal: &placement.Refusal{Code: placement.CodeBaseGangWaits, Cause: base}},
			of("Worker", 0, base), of("Worker", 1, &placement.Refusal{Code: placement.CodeBaseGangWaits, Gang: "base gang", Cause: base}),
		}},
		{"replicas that begin together", []Waiting{of("Decode", 0, head), of("Decode", 1, head), of("Decode", 2, &placement.Refusal{Code: placement.CodeBaseGangWaits, Gang: "Decode", Cause: head})}},
		{"only what follows is left", []Waiting{of("Decode", 2, &placement.Refusal{Code: placement.CodeBaseGangWaits, Gang: "Decode", Cause: head})}},
		{"the anchor is what binds one", anchored(1)},
		{"the anchor is what binds two", anchored(2)},
		{"the anchor is what binds three", anchored(3)},
		{"the anchor is what binds twenty", anchored(20)},
		{"the anchor is what binds, and others wait for something else", append(anchored(3), of("Other", 0, short(nil)))},
		{"the anchor is what binds, long domains", []Waiting{of("Worker", 2, short(func(r *placement.Refusal) {
			r.Within, r.Elsewhere = topology.Path{strings.Repeat("y", 60)}, topology.Path{strings.Repeat("z", 60)}
		}))}},
		{"long domains", []Waiting{of("Worker", 2, short(func(r *placement.Refusal) {
			r.Within = topology.Path{strings.Repeat("z", 60)}
			r.Closest.Domain = topology.Path{strings.Repeat("z", 60), strings.Repeat("b", 60), strings.Repeat("r", 60)}
		}))}},
		{"no planner was asked", []Waiting{{Component: "Worker", Code: CodeRequeued, Message: strings.Repeat("0/4 nodes are available: 4 Insufficient nvidia.com/gpu. ", 5)}}},
		{"pods are being made", []Waiting{{Component: "Worker", Code: CodeCreating, Message: BeingCreated}}},
	} {
		message := WaitingMessage(2, 2+len(tc.waiting), tc.waiting)
		if len(message) > MaxWaitingMessage {
			t.Errorf("%s: %d bytes", tc.title, len(message))
		}
		if strings.HasPrefix(tc.title, "the anchor is what binds") && !strings.Contains(message, "running pods anchor the graph") {
			t.Errorf("%s: the message does not say so: %s", tc.title, message)
		}
		for cause, twice := range map[string]string{"a replica": "Worker-0: Worker-0 needs", "the base gang": "base gang: base gang"} {
			if full := tc.waiting[len(tc.waiting)-1].Message; strings.Contains(message+full, twice) {
				t.Errorf("%s: %s is named twice: %s; %s", tc.title, cause, message, full)
			}
		}
		fmt.Fprintf(&out, "%s (%s)\n    %s\n", tc.title, LeadingCode(tc.waiting), message)
	}
	golden.Check(t, "testdata/waiting-messages.golden", out.String())
}
