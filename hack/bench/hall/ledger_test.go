// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hall

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// eight has two racks of two hosts per block, and two blocks per zone; hosts 0 and 1 are in rack-0.
var eight = Shape{Hosts: 8, HostsPerRack: 2, RacksPerBlock: 2, BlocksPerZone: 1}

func hosts(numbers ...int) []string {
	names := make([]string, 0, len(numbers))
	for _, n := range numbers {
		names = append(names, HostName(n))
	}
	return names
}

// TestTakeRefusesWrongAnswers checks that no wrong answer of a side passes.
func TestTakeRefusesWrongAnswers(t *testing.T) {
	ask := Ask{Name: "a", Whole: Block, Each: Rack, Gangs: 2, Pods: 2, GPUs: 8}
	for name, c := range map[string]struct {
		answer Answer
		want   string
	}{
		"right":           {Answer{hosts(0, 1), hosts(2, 3)}, ""},
		"gang missing":    {Answer{hosts(0, 1)}, "1 gangs answered, 2 asked"},
		"pod missing":     {Answer{hosts(0, 1), hosts(2)}, "gang 1 has 1 of 2 pods"},
		"gang split":      {Answer{hosts(0, 2), hosts(1, 3)}, "gang 0 is split: rack-0 and rack-1 are two racks"},
		"two blocks":      {Answer{hosts(0, 1), hosts(4, 5)}, "is split: zone-0 and zone-1 are two zones"},
		"over capacity":   {Answer{hosts(0, 1), hosts(2, 2)}, "host-000002 is over capacity: 16 GPUs taken, 8 free"},
		"twice by gangs":  {Answer{hosts(0, 1), hosts(1, 0)}, "over capacity"},
		"nobody's host":   {Answer{hosts(0, 1), hosts(2, 99)}, `no host "host-000099"`},
		"refused, wrong":  {nil, "was refused, but there is capacity"},
		"an empty answer": {Answer{}, "0 gangs answered"},
	} {
		t.Run(name, func(t *testing.T) {
			err := NewLedger(eight, nil).Judge(ask, c.answer)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLedgerCountsWhatIsUsed(t *testing.T) {
	l := NewLedger(eight, []*corev1.Pod{Pod("busy", 3, HostName(0))})
	if l.Free() != 8*8-3 {
		t.Errorf("free = %d", l.Free())
	}
	one := Ask{Name: "one", Whole: Cluster, Each: Rack, Gangs: 1, Pods: 1, GPUs: 5}
	if err := l.Take(one, Answer{hosts(0)}); err != nil {
		t.Error(err)
	}
	if err := l.Take(one, Answer{hosts(0)}); err == nil {
		t.Error("the host was full")
	}
	l.Give(one, Answer{hosts(0)})
	if l.Free() != 8*8-3 {
		t.Errorf("free after giving back = %d", l.Free())
	}
	if err := l.Judge(Ask{Name: "x", Whole: Cluster, Each: Rack, Gangs: 1, Pods: 3, GPUs: 8}, nil); err != nil {
		t.Errorf("three hosts in a rack of two: %v", err)
	}
}

func TestPackable(t *testing.T) {
	ask := func(name string, each Level, pods, gpus int) Ask {
		return Ask{Name: name, Whole: Zone, Each: each, Gangs: 1, Pods: pods, GPUs: gpus}
	}
	for name, c := range map[string]struct {
		asks []Ask
		want bool
	}{
		"fills a zone":             {[]Ask{ask("a", Rack, 2, 8), ask("b", Rack, 2, 8)}, true},
		"one too many":             {[]Ask{ask("a", Rack, 2, 8), ask("b", Rack, 2, 8), ask("c", Zone, 1, 1)}, false},
		"only in another order":    {[]Ask{ask("a", Zone, 2, 5), ask("b", Rack, 2, 8), ask("c", Zone, 2, 3)}, true},
		"more hosts than a rack":   {[]Ask{ask("a", Rack, 3, 8)}, false},
		"enough GPUs, no one host": {[]Ask{ask("a", Zone, 5, 5)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewLedger(eight, nil).Packable(Zone, c.asks); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
