// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/render"
)

// TestJudgeGraphs checks that a gang split between racks and an overcommitted host are wrong answers, and that a frontend may be anywhere.
func TestJudgeGraphs(t *testing.T) {
	shape := hall.Shape{Hosts: 8, HostsPerRack: 4, RacksPerBlock: 1_000, BlocksPerZone: 1}
	g := Graphs{Count: 2, Workers: 2, Frontends: 1, GPUs: hall.GPUs}
	for name, test := range map[string]struct {
		hosts [4]int
		valid bool
	}{
		"each in its rack": {[4]int{0, 1, 4, 5}, true},
		"both in one rack": {[4]int{0, 1, 2, 3}, true},
		"split":            {[4]int{0, 4, 1, 2}, false},
		"one host twice":   {[4]int{0, 0, 4, 5}, false},
	} {
		p := &pods{byName: map[string]*corev1.Pod{}}
		for i, host := range test.hosts {
			pod := barePod(fmt.Sprintf("worker-%d", i), "", hall.GPUs)
			pod.Labels[render.LabelGraph], pod.Spec.NodeName = fmt.Sprintf("graph-%d", i/2), hall.HostName(host)
			p.byName[pod.Name] = pod
		}
		for i := range 2 {
			pod := barePod(fmt.Sprintf("frontend-%d", i), "", 0)
			pod.Labels[render.LabelGraph], pod.Spec.NodeName = fmt.Sprintf("graph-%d", i), hall.HostName(7)
			p.byName[pod.Name] = pod
		}
		if err := g.judge(shape, p); (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		}
		delete(p.byName, "frontend-0")
		if err := g.judge(shape, p); err == nil {
			t.Errorf("%s: a missing pod is no error", name)
		}
	}
}

// TestNote checks that an object that becomes Ready again counts again.
func TestNote(t *testing.T) {
	are, last := map[string]bool{}, time.Time{}
	note(are, "a", true, &last)
	first := last
	if first.IsZero() || len(are) != 1 {
		t.Fatalf("%v at %v", are, first)
	}
	note(are, "a", true, &last)
	if last != first {
		t.Error("what stays Ready counts twice")
	}
	note(are, "a", false, &last)
	if len(are) != 0 || last != first {
		t.Errorf("%v at %v", are, last)
	}
	note(are, "a", true, &last)
	if len(are) != 1 || !last.After(first) {
		t.Errorf("%v at %v", are, last)
	}
}
