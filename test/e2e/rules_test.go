// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const placed = nvidiav1alpha1.ConditionPlaced

var rules = map[string]rule{
	"1 the graph is in one domain": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone",
		services: services{"Prefill": worker(2, 1, 8, ""), "Decode": worker(1, 2, 8, ""), "Frontend": frontend(1)},
		after:    func(w *world) { w.in("", "zone", "b") },
	},
	"1 the graph fits into no domain": {
		nodes: racks(2, 8, "a/r0", "b/r0"), level: "zone",
		services: services{"Prefill": worker(1, 2, 8, ""), "Decode": worker(1, 1, 8, "")},
		waits:    []string{"no zone has 3 hosts: the largest has 2"}, never: true,
		after: func(w *world) {
			w.nothingReleased("Prefill", 2)
			w.nothingReleased("Decode", 1)
			w.addHosts(host{zone: "b", rack: "r0", name: "b-new", gpus: 8})
			w.ready("g")
			w.in("", "zone", "b")
		},
	},
	"2 a multinode replica is in one domain, another may be in another": {
		nodes: racks(2, 8, "a/r0", "a/r1"), services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			w.eachInOne("Worker", "rack", 2)
			w.in("Worker", "rack", "a/r0", "a/r1")
		},
	},
	"2 a single-node service is in one domain with all replicas": {
		nodes: racks(2, 4, "a/r0", "a/r1"), services: services{"Worker": worker(6, 1, 1, "rack")},
		after: func(w *world) {
			if got := w.domains("rack", w.of("Worker")...); len(got) != 1 {
				w.t.Errorf("it is in %v", got)
			}
		},
	},
	"2 racks of one name in two zones are two racks": {
		nodes: racks(1, 8, "a/r0", "b/r0"), services: services{"Worker": worker(1, 2, 8, "rack")},
		waits: []string{"no rack has 2 hosts: the largest has 1", "in one rack"}, never: true,
		after: func(w *world) {
			w.nothingReleased("Worker", 2)
			w.addHosts(host{zone: "b", rack: "r0", name: "b-new", gpus: 8})
			w.ready("g")
			w.in("", "rack", "b/r0")
		},
	},
	"2 units lie inside the graph's domain": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(2)},
		after: func(w *world) {
			w.eachInOne("Worker", "rack", 2)
			w.in("", "zone", "b")
		},
	},
	"4 preferred is reached": {
		nodes: append(racks(1, 8, "a/r0"), racks(2, 8, "a/r1")...), level: "zone", preferred: "rack", services: services{"Worker": worker(2, 1, 8, "")},
		after: func(w *world) { w.in("", "rack", "a/r1") },
	},
	"4 preferred is climbed from": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", preferred: "rack", services: services{"Worker": worker(1, 3, 8, "")},
		after: func(w *world) { w.in("", "rack", "a/r0", "a/r1") },
	},
	"5 a gang starts whole or not at all": {
		nodes: racks(2, 8, "a/r0", "a/r1"), services: services{"Worker": worker(1, 3, 8, "rack")},
		waits: []string{"no rack has 3 hosts: the largest has 2"}, never: true,
		after: func(w *world) {
			w.nothingReleased("Worker", 3)
			w.addHosts(host{zone: "a", rack: "r1", name: "a-new", gpus: 8})
			w.ready("g")
			w.in("", "rack", "a/r1")
		},
	},
	"5 further replicas come as they fit": {
		nodes: racks(2, 8, "a/r0"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")},
		waits: []string{"1 of 2 packed replicas are placed", "Worker-1"},
		after: func(w *world) {
			w.addHosts(racks(2, 8, "a/r1")...)
			w.ready("g")
			w.eachInOne("Worker", "rack", 2)
		},
	},
	"6 look ahead": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")},
		after: func(w *world) { w.in("", "zone", "b") },
	},
	"6 tightest fit": {
		nodes: append(racks(4, 8, "a/r0"), racks(2, 8, "a/r1")...), services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) { w.in("", "rack", "a/r1") },
	},
	"7 scale-out stays in the graph's domain": {
		nodes: append(racks(2, 8, "a/r0"), racks(2, 8, "b/r0", "b/r1", "b/r2")...), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			w.in("", "zone", "a")
			w.scale("g", "Worker", 2)
			w.waitsFor("InsufficientCapacity", "Worker-1")
			w.nothingReleasedOf("Worker", 1)
			w.addHosts(racks(2, 8, "a/r1")...)
			w.ready("g")
			w.in("", "zone", "a")
			w.eachInOne("Worker", "rack", 2)
		},
	},
	"7 a lost member brings the replica back where it was": {
		nodes: append(racks(2, 8, "a/r0"), racks(3, 8, "a/r1")...), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			w.in("Worker", "rack", "a/r0")
			w.replaced("Worker", 2, func() { w.deletePod("g-worker-0-1") })
			w.ready("g")
			w.in("Worker", "rack", "a/r0")
		},
	},
	"7 a replica moves whole when its rack is full": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			first := w.domains("rack", w.of("Worker")...)
			node := get(w, &corev1.Node{}, "", w.of("Worker")[0].Spec.NodeName)
			if err := w.c.Patch(w.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
				w.t.Fatal(err)
			}
			w.replaced("Worker", 2, func() { w.deletePod("g-worker-0-0") })
			w.ready("g")
			if now := w.domains("rack", w.of("Worker")...); len(now) != 1 || slices.Equal(now, first) {
				w.t.Errorf("the replica was in %v and is in %v", first, now)
			}
		},
	},
	"7 with all members gone the graph is free": {
		nodes: racks(2, 8, "a/r0", "b/r0"), level: "zone", services: services{"Worker": worker(1, 2, 8, "")},
		after: func(w *world) {
			first := w.domains("zone", w.all()...)[0]
			w.scale("g", "Worker", 0)
			w.gone("Worker")
			w.ready("g")
			w.occupy("other", first+"-r0-0", 1)
			w.scale("g", "Worker", 1)
			w.ready("g")
			if got := w.domains("zone", w.all()...); len(got) != 1 || got[0] == first {
				w.t.Errorf("the graph is in %v, want the zone other than %s", got, first)
			}
		},
	},
	"8 a lost level: what runs stays, what needs it waits": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			before := w.uids()
			topology := get(w, &grovev1alpha1.ClusterTopology{}, "", w.name)
			without := topology.DeepCopy()
			without.Spec.Levels = slices.DeleteFunc(without.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == "rack" })
			if err := w.c.Patch(w.t.Context(), without, client.MergeFrom(topology)); err != nil {
				w.t.Fatal(err)
			}
			w.scale("g", "Worker", 2)
			w.waitsFor("LevelGone", "Worker-1", "'rack'")
			w.nothingReleasedOf("Worker", 1)
			Expect(w.uids()).To(haveAllOf(before), "a pod that ran before the level was lost is gone")
		},
	},
	"9 capacity is counted per node": {
		nodes: append(racks(3, 7, "a/r0"), racks(1, 8, "b/r0")...), level: "zone", services: services{"Worker": worker(1, 1, 8, "")},
		after: func(w *world) { w.in("", "host", "b/r0/"+w.node("b-r0-0")) },
	},
	"9 shapes of several sizes bind as planned": {
		nodes: racks(2, 8, "a/r0"), level: "rack", services: services{"Small": worker(2, 1, 4, ""), "Large": worker(1, 1, 8, "")},
		after: func(w *world) { w.noEvent("Requeued") },
	},
	"13 what cannot bind is requeued whole and planned again": {
		nodes:    append(racks(2, 8, "a/r0"), racks(1, 8, "a/r1")...),
		services: services{"Worker": withPodSpec(worker(1, 2, 8, "rack"), disk(true))},
		before:   func(w *world) { w.outOfSight("a-r0-0") },
		waits:    []string{},
		after: func(w *world) {
			w.hasEvent("DynamoGraphDeployment", "g", "Requeued", "could not be bound")
			w.inSight("a-r0-0")
			w.ready("g")
			w.eachInOne("Worker", "rack", 2)
		},
	},
	"15 a rolling update stays where it is": {
		nodes: racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")},
		after: func(w *world) {
			zone := w.domains("zone", w.all()...)
			w.replaced("Worker", 4, func() {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`))
				if err := w.c.Patch(w.t.Context(), w.dgd("g"), patch); err != nil {
					w.t.Fatal(err)
				}
			})
			w.ready("g")
			w.in("", "zone", zone...)
			w.eachInOne("Worker", "rack", 2)
		},
	},
}

var _ = Describe("The rules of placement", func() {
	// Every rule under every provider that places pods of Trellis' own.
	for _, under := range []struct {
		provider sandbox.Provider
		on       *sharedSandbox
	}{{sandbox.Gates, shared}, {sandbox.PodGroup, podGroups}} {
		Context(fmt.Sprintf("under %s", under.provider), func() {
			for _, name := range slices.Sorted(maps.Keys(rules)) {
				It(name, func(ctx SpecContext) {
					rules[name].check(under.on.open(ctx).newWorld(ctx, "r-"+dashed(name), rules[name].nodes...))
				}, SpecTimeout(suite.Timeout()))
			}
		})
	}
})

func dashed(name string) string {
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name), "-")
	return strings.Trim(name[:min(len(name), 40)], "-")
}

func (r rule) check(w *world) {
	if r.before != nil {
		r.before(w)
	}
	dgd := w.graphOf("g", r.level, r.services)
	dgd.Spec.TopologyConstraint.PreferredPackDomain = r.preferred
	w.create(dgd.DeepCopy())
	switch {
	case r.waits == nil:
		w.ready("g")
	case r.never:
		w.waitsFor("NeverFits", r.waits...)
	case len(r.waits) > 0:
		w.waitsFor("InsufficientCapacity", r.waits...)
	}
	if r.after != nil {
		r.after(w)
	}
}
