// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const placed = nvidiav1alpha1.ConditionPlaced

// rule is a row of the table of docs/providers.md, on the real system. A scenario in which a provider deviates checks the deviation itself.
type rule struct {
	nodes []host
	// level and services of the deployment "g"; preferred is its preferred level.
	level, preferred string
	services         services
	// short means that the deployment does not fit at first. narrow means that Grove's scheduler may choose too small a domain.
	short, narrow bool
	after         func(w *world)
}

var rules = map[string]rule{
	"required domain of the graph": {
		nodes: racks(2, "a/r0", "b/r0", "b/r1"), level: "zone",
		services: services{"Prefill": worker(2, 1, 8, ""), "Decode": worker(1, 2, 8, ""), "Frontend": frontend(1)},
		after:    func(w *world) { w.in("", "zone", "b") },
	},
	"required domain of a replica": {
		nodes: racks(2, "a/r0", "a/r1"), services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) { w.eachInOne("Worker", 2, 2) },
	},
	"required domain of a single-node service": {
		nodes: append(racks(1, "a/r0"), racks(2, "a/r1")...), services: services{"Worker": worker(2, 1, 8, "rack")}, narrow: true,
		after: func(w *world) {
			if len(w.bound("Worker")) == 1 { // Grove's scheduler checked only the first pod
				in := w.domains("rack", w.bound("Worker")...)[0]
				w.addHosts(host{zone: "a", rack: in[2:], name: "a-new", gpus: 8})
				w.ready("g")
				w.in("Worker", "rack", in)
				return
			}
			w.ready("g")
			w.in("Worker", "rack", "a/r1")
		},
	},
	"racks of one name in two zones are two": {
		nodes: racks(1, "a/r0", "b/r0"), services: services{"Worker": worker(1, 2, 8, "rack")}, short: true,
		after: func(w *world) {
			w.noneBound("Worker")
			w.addHosts(host{zone: "b", rack: "r0", name: "b-new", gpus: 8})
			w.ready("g")
			w.in("", "rack", "b/r0")
		},
	},
	"preferred is reached": {
		nodes: append(racks(1, "a/r0"), racks(2, "a/r1")...), level: "zone", preferred: "rack", services: services{"Worker": worker(1, 2, 8, "")},
		after: func(w *world) { w.in("", "rack", "a/r1") },
	},
	"preferred is climbed from": {
		nodes: racks(2, "a/r0", "a/r1"), level: "zone", preferred: "rack", services: services{"Worker": worker(1, 3, 8, "")},
		after: func(w *world) { w.in("", "rack", "a/r0", "a/r1") },
	},
	"all or nothing, and why": {
		nodes: racks(2, "a/r0", "a/r1"), services: services{"Worker": worker(1, 3, 8, "rack")}, short: true,
		after: func(w *world) {
			w.noneBound("Worker")
			if w.underGrove() { // Grove's scheduler reports on the pods
				w.says("g", placed, metav1.ConditionFalse, "WaitsForGrove", "only 2 of 3 required pods")
			} else {
				w.says("g", placed, metav1.ConditionFalse, "NeverFits", "no rack has 3 hosts: the largest has 2")
			}
			w.addHosts(host{zone: "a", rack: "r1", name: "a-new", gpus: 8})
			w.ready("g")
			w.in("", "rack", "a/r1")
		},
	},
	"further replicas come as they fit": {
		nodes: racks(2, "a/r0"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")}, short: true,
		after: func(w *world) {
			w.addHosts(racks(2, "a/r1")...)
			w.ready("g")
			w.eachInOne("Worker", 2, 2)
		},
	},
	"later replicas": {
		nodes: append(racks(2, "a/r0"), racks(2, "b/r0", "b/r1")...), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			first := w.domains("zone", w.pods("g", "")...)
			other := "b"
			if first[0] == "b" { // Grove's scheduler need not take the tighter zone
				w.cordon("b/r0")
				w.cordon("b/r1")
				other = "a"
			}
			w.scale("Worker", 2)
			if w.underGrove() {
				w.says("g", placed, metav1.ConditionFalse, "OutsideGraphDomain", "Worker-1 in "+other)
				w.eachInOne("Worker", 2, 2)
				return
			}
			w.says("g", placed, metav1.ConditionFalse, "InsufficientCapacity", "Worker-1")
			w.addHosts(racks(2, first[0]+"/r9")...)
			w.ready("g")
			w.in("", "zone", first...)
			w.eachInOne("Worker", 2, 2)
		},
	},
	"a member is lost": {
		nodes: append(racks(2, "a/r0"), racks(3, "a/r1")...), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			first := w.domains("rack", w.pods("g", "Worker")...)
			w.lost(2, w.removeOne)
			w.ready("g")
			if !w.underGrove() {
				w.in("Worker", "rack", first...)
			}
			w.eachInOne("Worker", 2, 1)
		},
	},
	"a node is lost": {
		nodes: racks(3, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			first := w.domains("rack", w.pods("g", "")...)
			w.lost(2, func(pod *corev1.Pod) { w.loseNode(pod.Spec.NodeName) })
			w.ready("g")
			if !w.underGrove() {
				w.in("", "rack", first...)
			}
		},
	},
	"the rack is cordoned": {
		nodes: racks(2, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			first := w.domains("rack", w.pods("g", "")...)
			w.cordon(first[0])
			w.lost(2, w.removeOne)
			if w.underGrove() {
				w.says("g", placed, metav1.ConditionFalse, "OutsideReplicaDomain", "Worker-0 is in rack")
				return
			}
			w.ready("g")
			Expect(w.domains("rack", w.pods("g", "")...)).To(And(HaveLen(1), Not(Equal(first))))
		},
	},
}

var _ = Describe("The rules of providers", Serial, func() { eachUnderEach(rules) })

// eachUnderEach defines specs for the given rules under every provider whose peers run.
func eachUnderEach(rules map[string]rule) {
	for _, p := range running() {
		Context("under "+p.name, p.labels, func() {
			for _, name := range slices.Sorted(maps.Keys(rules)) {
				It(name, func(ctx SpecContext) {
					rules[name].check(newWorld(ctx, p, rules[name].nodes...))
				}, SpecTimeout(suite.Timeout()))
			}
		})
	}
}

func (r rule) check(w *world) {
	dgd := w.graph("g", r.level, r.services)
	dgd.Spec.TopologyConstraint.PreferredPackDomain = r.preferred
	w.create(dgd)
	switch {
	case r.short:
		w.says("g", placed, metav1.ConditionFalse, "NeverFits|InsufficientCapacity|WaitsForGrove", "")
	case r.narrow && w.underGrove():
		w.until("Grove's scheduler has chosen", func() error {
			if len(w.bound("Worker")) == 2 {
				return nil
			}
			return said(w.condition("g", placed), "can allocate only 0 of 1 required pods")
		})
	default:
		w.ready("g")
	}
	r.after(w)
}
