// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// After a restart, the operator avoids the refused places until their recorded end.
func TestRefusalsAreRecorded(t *testing.T) {
	inA := func(place string) string {
		if place[0] == 'a' {
			return "no device"
		}
		return ""
	}
	before := newPicky(t, inA)
	record := (&assignment.Record{}).Clone()
	fresh := func() gang.Observation {
		o := asking(1, 2, 0)
		o.Record = record
		return o
	}
	o := fresh()
	d := before.decide(o)
	if len(d.releases) == 0 || before.bind(&o, d.releases) {
		t.Fatalf("the gang is not refused: %v", before.log)
	}
	before.pass(30 * time.Second)
	gangs, _ := before.s.ledger.stuckGangs(o)
	before.s.ledger.requeued(o, gangs)
	next, _ := before.s.ledger.evictedRecord(clientKey(o), gangs, asRead(o))
	if next == nil || len(next.Refused) == 0 {
		t.Fatalf("no refused place is recorded with the eviction of %v", gangs)
	}
	spec := next.Encode(o.DGD.UID)
	if record = assignment.Decode(&spec); len(record.Gangs) != 1 {
		t.Fatalf("recorded: %v", recordedAs(record))
	}

	for name, tc := range map[string]struct {
		after time.Duration
		rack  string
	}{"while it is left out": {time.Second, "b"}, "when that is over for long": {3 * lastRefusal, "a"}} {
		after := newPicky(t, inA)
		after.clock.Step(30*time.Second + tc.after)
		o := fresh()
		o.Record = assignment.Decode(&spec)
		o.Record.Gangs = nil // its pods are deleted
		o.Record = o.Record.Clone()
		d := after.decide(o)
		if len(d.releases) == 0 || d.releases[0].Pin.Labels["r"] != tc.rack {
			t.Errorf("%s: released %+v, want rack %s", name, d.releases, tc.rack)
		}
		if recorded := d.record != nil && len(d.record.Refused) > 0; recorded != (tc.rack == "b") {
			t.Errorf("%s: recorded again: %t", name, recorded)
		}
	}
}
