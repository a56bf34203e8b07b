// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// One reconcile makes a batch, whatever is wanted, and says that there is more.
func TestBatches(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, size int32
		want           int
		more           bool
	}{
		"all in one":               {replicas: 128, size: 4, want: 512},
		"one more than a batch":    {replicas: 513, size: 1, want: 512, more: true},
		"a replica beyond a batch": {replicas: 1, size: 4096, want: 512, more: true},
		"any number of replicas":   {replicas: math.MaxInt32, size: 1, want: 512, more: true},
		"any number of nodes":      {replicas: 1, size: math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(c.replicas, c.size)
			got := stepsOf(sg, nil, attempts{}, plan(sg, nil))
			if len(got.create) != c.want || got.more != c.more {
				t.Errorf("%d pods and more %v, want %d and %v", len(got.create), got.more, c.want, c.more)
			}
			sg.Spec.Workload = "LeaderWorkerSet"
			if got := stepsOf(sg, nil, attempts{}, plan(sg, nil)); len(got.make) > batch || len(got.create) > 0 {
				t.Errorf("%d sets and %d pods", len(got.make), len(got.create))
			}
		})
	}
}

// The delay doubles with each refusal up to half a minute. A change of the spec, a success and another group of the name end it.
func TestRefusals(t *testing.T) {
	clock := time.Unix(0, 0)
	r := refusals{now: func() time.Time { return clock }}
	sg, refused := group(1, 1), errors.New("exceeded quota")
	var delays []time.Duration
	for range 7 {
		r.note(sg, refused)
		a := r.wait(sg)
		if !errors.Is(a.refused, refused) {
			t.Errorf("it waits for %v", a.refused)
		}
		delays = append(delays, a.again)
		clock = clock.Add(a.again - time.Nanosecond)
		if r.wait(sg).again == 0 {
			t.Error("it does not wait to the end")
		}
		clock = clock.Add(time.Nanosecond)
		if r.wait(sg) != (allowance{}) {
			t.Error("it waits longer")
		}
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	r.note(sg, refused)
	changed, successor := sg.DeepCopy(), sg.DeepCopy()
	changed.Generation++
	successor.UID = "another"
	if r.wait(changed).again != 0 || r.wait(successor).again != 0 || r.has(successor) {
		t.Error("a changed group, or another of its name, waits")
	}
	r.retryIn(sg.Namespace)
	if r.wait(sg).again != 0 || !r.has(sg) {
		t.Error("it waits although it may be tried again, or begins with many creates")
	}
	r.note(sg, nil)
	if r.wait(sg).again != 0 || r.has(sg) || len(r.byGroup) > 0 {
		t.Error("it waits after a success")
	}
}
