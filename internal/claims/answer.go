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

// question is the cache key of an answer. It identifies the node's devices as far as the class distinguishes devices, the taken devices,
// the class's shared claims that are already allocated, and the class's resources that the node does not offer.
type question struct {
	like, taken   uint64
	shared, lacks uint64
}

// answer is the allocation for one more pod of a class on a node.
type answer struct {
	// refused is the reason that keeps the pod off the node; "" when the pod gets its devices. about has the indexes of the claims that the
	// reason concerns, -1 for served resources. In the reason, placeholders stand for claim names, because classes with other claim names
	// may use the same answer.
	refused string
	about   []int
	// failed: the allocator returned an error.
	failed bool
	// given lists the devices that each claim of the question gets.
	given []given
}

// given is the allocation of one claim.
type given struct {
	// shared is the index in the class of a claim that several pods share; -1 for a claim of one pod.
	shared int
	// devices has, for each of the results, the index of its device among the node's devices; -1 for a device that the node does not have.
	devices []int
	results []resourcev1.DeviceRequestAllocationResult
	// selector limits the nodes on which the allocation can be used. here: the allocation can be used only on this node.
	selector *corev1.NodeSelector
	here     bool
}

// why returns the reason that keeps pods of a class off the node; "" for none.
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

// mark returns the placeholder for the name of a class's i-th claim.
func mark(i int) string { return "\x00" + strconv.Itoa(i) + "\x00" }

// on returns the results of an allocation with the names that the devices have on a particular node.
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

// maxReason is the maximum length of an allocator's error in messages.
const maxReason = 120

// spent is the reason that is reported for nodes that are not checked because the plan's budget is used up. The next plan continues with
// the cached answers.
const spent = "the plan compared too much"

// lateWork is the cost, in comparisons, that is added for an allocation that takes too long. It limits the number of such allocations per
// plan, for any number of classes.
const lateWork = 8_000_000

// tooLong is the number of times that the allocation for a class may take too long. After that, pods of the class are refused without a
// call of the allocator until the devices change. Each such allocation takes up to a second, during which no other graph is planned.
const tooLong = 2

// ask returns the answer for one more pod of a class on a node.
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

// toAllocate returns the claims to allocate for one more pod, and the index of each claim in the class; -1 for the claim of served
// resources.
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

// allocate calls the allocator.
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

// work is the cost of an allocation, in comparisons, without the evaluation of selectors. workPerDevice is the additional cost per device
// and claim.
const work, workPerDevice = 256, 16

func (b *binding) try(h *hostDevices, taken state, list []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	b.cluster.Spend(len(list)*(work+workPerDevice*len(h.devices)) + b.store.evaluating(list, len(h.devices)))
	b.store.asked++
	return b.store.Allocator.Allocate(Question{Node: h.node, Claims: list, Slices: h.slices, Classes: b.store.classes, Taken: taken.results})
}

// lacking returns an answer that names the first request that fails by itself, with the number of devices that the request needs and the
// number that are free. If each request succeeds by itself, the answer states that no devices meet the claims.
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

// most returns how many devices a request could get by itself; fewer than requested if there are not enough devices.
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

// words names the given claims of the class for messages.
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

// maxRoom is the maximum number of pods counted on one node.
const maxRoom = 256

// room returns how many further pods of a class a node's devices suffice for. It ignores shared claims. It returns false at maxRoom pods or
// more.
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
