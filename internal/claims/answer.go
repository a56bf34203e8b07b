// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// question is what an answer is kept by: the node's devices and the class, what is taken of them, which of the class's shared claims have
// their devices, and which of its resources the node does not offer.
type question struct {
	like, taken   uint64
	shared, lacks uint64
}

// answer is what one more pod of a class gets on a node.
type answer struct {
	// refused is what keeps the pod off, and about are the claims that this is said of, by where they are in the class, -1 for the resources
	// that are served; "" when it gets its devices. Names of claims are marks in it: classes of other names may have the answer, too.
	refused string
	about   []int
	// failed says that the allocator could not decide.
	failed bool
	// given are the devices of each claim of the question.
	given []given
}

// given is what one claim gets.
type given struct {
	// shared is which of the class's claims it is; -1 for one of the pod's own.
	shared int
	// devices are where they are among the node's, -1 for one that is in results with its name.
	devices []int
	results []resourcev1.DeviceRequestAllocationResult
	// selector tells where the allocation can be used; here: on the node only.
	selector *corev1.NodeSelector
	here     bool
}

// why says to pods of a class what keeps them off; "" for nothing.
func (a *answer) why(c *class) string {
	if a.refused == "" {
		return ""
	}
	text, known := c.told[a]
	if !known {
		text = a.refused
		for i, claim := range c.claims {
			text = strings.ReplaceAll(text, mark(i), claim.name.String())
		}
		if text = c.words(a.about) + ": " + text; a.failed {
			text = limit.Text(text, maxReason)
		}
		c.told[a] = text
	}
	return text
}

// mark stands for the name of a class's claim.
func mark(i int) string { return "\x00" + strconv.Itoa(i) + "\x00" }

// on is what is given, with the names of a node's devices.
func (g *given) on(h *hostDevices) []resourcev1.DeviceRequestAllocationResult {
	out := make([]resourcev1.DeviceRequestAllocationResult, len(g.results))
	for i := range g.results {
		out[i] = g.results[i]
		if at := g.devices[i]; at >= 0 {
			id := h.devices[at]
			out[i].Driver, out[i].Pool, out[i].Device = id.pool.driver, id.pool.name, id.name
		}
	}
	return out
}

// maxReason bounds what is said of an allocation that fails.
const maxReason = 120

// spent is said of nodes that are not asked about. The plan refuses what it has not looked at, and the answers so far are kept for the
// next one.
const spent = "the plan compared too much"

// lateWork is what an allocation costs that takes too long, in comparisons: a plan has few of them, whatever number of classes it has.
const lateWork = 8_000_000

// tooLong is how many allocations of a class may take too long until the rest is taken for failing, too, as long as the devices are the
// same. Each takes up to a second, in which no other graph is planned.
const tooLong = 2

// ask answers what one more pod of a class gets on a node.
func (b *binding) ask(c *class, h *hostDevices, taken state, shared, lacks uint64) *answer {
	s := b.store
	q := question{like: s.like(h, c), taken: taken.sum, shared: shared, lacks: lacks}
	if b.cluster.Spend(4); s.answers[q] != nil {
		return s.answers[q]
	}
	a := &answer{}
	list, which := c.toAllocate(shared, lacks)
	switch {
	case len(list) == 0:
	case b.cluster.Spent():
		return &answer{refused: spent, about: which}
	case s.late[c.text] >= tooLong:
		return &answer{refused: ErrTooLong.Error(), about: which}
	default:
		a = b.allocate(c, h, taken, list, which)
	}
	if len(s.answers) >= maxAnswers {
		clear(s.answers)
	}
	s.answers[q] = a
	return a
}

// toAllocate are the claims of one more pod that have no devices yet, and where each is in the class; -1 for the resources that are served.
func (c *class) toAllocate(shared, lacks uint64) (list []*resourcev1.ResourceClaim, which []int) {
	for i, claim := range c.claims {
		if claim.object != nil && (claim.own || shared&(1<<i) == 0) {
			list, which = append(list, claim.object), append(which, i)
		}
	}
	if lacks != 0 {
		list, which = append(list, c.made(lacks)), append(which, -1)
	}
	return list, which
}

// allocate asks the allocator.
func (b *binding) allocate(c *class, h *hostDevices, taken state, list []*resourcev1.ResourceClaim, which []int) *answer {
	results, err := b.try(h, taken, list)
	switch {
	case errors.Is(err, ErrTooLong):
		b.store.late[c.text]++
		b.cluster.Spend(lateWork)
		return &answer{refused: err.Error(), about: which}
	case err != nil:
		text := err.Error()
		for i, claim := range c.claims {
			text = strings.ReplaceAll(text, "claim "+claim.name.String(), "claim "+mark(i))
		}
		return &answer{refused: text, about: which, failed: true}
	case len(results) < len(list):
		return b.lacking(h, taken, list, which)
	}
	delete(b.store.late, c.text)
	a := &answer{}
	for i := range results {
		shared := which[i]
		if shared >= 0 && c.claims[shared].own {
			shared = -1
		}
		g := given{shared: shared, results: results[i].Devices.Results, selector: results[i].NodeSelector, here: only(results[i].NodeSelector,
			h.node.Name)}
		for k := range g.results {
			at, known := h.at[deviceID{poolID{g.results[k].Driver, g.results[k].Pool}, g.results[k].Device}]
			if !known {
				at = -1
			}
			g.devices = append(g.devices, at)
		}
		a.given = append(a.given, g)
	}
	return a
}

// work is what an allocation costs, in comparisons: for each device on top of each claim. Evaluating its selectors comes on top.
const work, workPerDevice = 256, 16

func (b *binding) try(h *hostDevices, taken state, list []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	b.cluster.Spend(len(list)*(work+workPerDevice*len(h.devices)) + b.store.evaluating(list, len(h.devices)))
	b.store.asked++
	return b.store.Allocator.Allocate(Question{Node: h.node, Claims: list, Slices: h.slices, Classes: b.store.classes, Taken: taken.results})
}

// lacking reports which request fails by itself, with how many devices it needs and how many would meet it; or that they fail together.
func (b *binding) lacking(h *hostDevices, taken state, list []*resourcev1.ResourceClaim, which []int) *answer {
	for k, claim := range list {
		for i := range claim.Spec.Devices.Requests {
			r := &claim.Spec.Devices.Requests[i]
			if r.Exactly == nil || r.Exactly.AllocationMode == resourcev1.DeviceAllocationModeAll {
				continue
			}
			if free := b.most(h, taken, claim, r); int64(free) < max(r.Exactly.Count, 1) {
				return &answer{
					refused: fmt.Sprintf("%d of %d devices of class %s free", free, max(r.Exactly.Count, 1), r.Exactly.DeviceClassName),
					about:   which[k : k+1],
				}
			}
		}
	}
	return &answer{refused: "no free devices meet it", about: which}
}

// most is how many devices, below what a request asks for, it could get by itself.
func (b *binding) most(h *hostDevices, taken state, claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequest) int {
	meets := func(count int64) bool {
		one := &resourcev1.ResourceClaim{ObjectMeta: claim.ObjectMeta}
		one.Spec.Devices.Requests = []resourcev1.DeviceRequest{*r.DeepCopy()}
		one.Spec.Devices.Requests[0].Exactly.Count = count
		results, err := b.try(h, taken, []*resourcev1.ResourceClaim{one})
		return err == nil && len(results) > 0
	}
	low, high := int64(0), min(max(r.Exactly.Count, 1), resourcev1.AllocationResultsMaxSize)+1
	for low+1 < high {
		if mid := (low + high) / 2; meets(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return int(low)
}

// words name claims of the class in messages.
func (c *class) words(which []int) string {
	switch first := which[0]; {
	case first < 0:
		return "devices of " + c.servedNames()
	case len(which) == 1:
		return c.claims[first].title
	default:
		return fmt.Sprintf("resource claims %s and %d more", c.claims[first].name.Name, len(which)-1)
	}
}

// maxRoom bounds the pods that are counted on one node.
const maxRoom = 256

// room is how many further pods of a class a node holds by its devices, claims that pods share left out; false: any number.
func (b *binding) room(c *class, h *hostDevices, taken state, lacks uint64) (n int32, limited bool) {
	all := uint64(1)<<len(c.claims) - 1
	q := question{like: b.store.like(h, c), taken: taken.sum, lacks: lacks}
	if known, is := c.rooms[q]; is {
		return known, known < maxRoom
	}
	for n < maxRoom {
		a := b.ask(c, h, taken, all, lacks)
		before := taken
		for i := range a.given {
			taken = taken.with(h, a.given[i].on(h))
		}
		if a.refused != "" || taken.sum == before.sum && len(taken.results) == len(before.results) {
			break
		}
		n++
	}
	if a := b.ask(c, h, taken, all, lacks); a.refused == "" {
		n = maxRoom
	}
	c.rooms[q] = n
	return n, n < maxRoom
}
