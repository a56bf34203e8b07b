// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/live"
)

const operator = "system:serviceaccount:trellis-system:trellis-controller-manager"

func written(n int, user, verb, resource string) []live.Write {
	return slices.Repeat([]live.Write{{User: user, Verb: verb, Resource: resource}}, n)
}

// TestWriteRows checks that only the operator's writes count for the target.
func TestWriteRows(t *testing.T) {
	for creates, met := range map[int]bool{22: true, 23: false} { // 2.75 and 2.875 per pod
		r := newReport(fullSizes)
		round := slices.Concat(written(creates-2, operator, "create", "pods"), written(2, operator, "patch", "pods"), written(8, "scheduler", "create", "pods/binding"))
		round[0].Refused = true
		r.writeRows(2, 4, [][]live.Write{round, round})
		if one := r.rows[0]; one.Met != met || one.Ours != float64(creates)/8 || one.Peer != float64(creates+8)/8 {
			t.Errorf("%d writes: %+v", creates, one)
		}
		if creates == 22 {
			for i, want := range []string{"22 by the operator (2.75 to 2.75 a pod in 2 rounds; 1 of them refused), 30 by", "create pods 20, patch pods 2.", operator + " 22, scheduler 8."} {
				if !strings.Contains(r.notes[i], want) {
					t.Errorf("%q does not say %q", r.notes[i], want)
				}
			}
		}
	}
}

func TestSizeRows(t *testing.T) {
	r := newReport(fullSizes)
	small := live.PodSize{JSON: 1000, Protobuf: 800, Created: 400, Digits: 10}
	r.packedSizes(8, live.PodSize{JSON: 1250, Protobuf: 1001}, small)
	r.gangSizes(fullSizes.graphs(), small, live.PodSize{JSON: 1005, Protobuf: 805, Created: 406, Digits: 15})
	for i, met := range []bool{true, false, true, true, false} {
		if r.rows[i].Met != met {
			t.Errorf("%+v: met is not %v", r.rows[i], met)
		}
	}
	if note := r.notes[1]; !strings.Contains(note, ": 5 bytes") {
		t.Error(note)
	}
}

func TestReadyAndMemoryRows(t *testing.T) {
	r, g := newReport(fullSizes), fullSizes.graphs()
	r.readyRow(g.ready, fullLive.few, []time.Duration{time.Minute}, []time.Duration{time.Second, 3 * time.Second})
	r.readyRow(g.ready, fullLive.few, []time.Duration{time.Minute}, []time.Duration{time.Second, 4 * time.Second})
	r.residentRows(g.resident, fullLive.few, live.Resident{Working: 300, Restarted: 301})
	for i, met := range []bool{true, false, true, false} {
		if r.rows[i].Met != met {
			t.Errorf("%+v: met is not %v", r.rows[i], met)
		}
	}
	if name := r.rows[2].Name; name != "operator's peak resident, 10,000 pods, 2,000 nodes, 1,000 graphs" {
		t.Error(name)
	}
}

// TestChosen checks that a part within another one runs only if selected by name.
func TestChosen(t *testing.T) {
	for only, want := range map[string]bool{"": false, "bare": true, "bind": false} {
		o := options{sandbox: true, only: strings.Fields(only), parts: parts}
		chosen, err := o.chosen()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(chosen, func(p part) bool { return p.name == "bare" }); got != want {
			t.Errorf("-only %q runs bare: %v", only, got)
		}
	}
}
