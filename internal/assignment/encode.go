// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// maxMessage is the maximum length of a stored message, in bytes.
	maxMessage = 1024
	// maxReplicas is the maximum number of decoded replicas. Without it, a few bytes of ranges could decode to any number of replicas.
	maxReplicas = 1 << 18
)

// Encode returns the record as the spec of a GraphPlacement. Equal records have equal specs.
func (r *Record) Encode(deployment types.UID) trellisv1alpha1.GraphPlacementSpec {
	d := newDictionaries()
	out := trellisv1alpha1.GraphPlacementSpec{
		DeploymentUID: string(deployment), Domain: r.Domain.String(), BoundReplicas: int32(len(r.Bound)), UnboundGangs: int32(len(r.Gangs)),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Gangs)) {
		g := r.Gangs[name]
		out.Gangs = append(out.Gangs, trellisv1alpha1.PlacedGang{
			Name: name, State: g.State, Base: g.Base, Since: metav1.NewTime(g.Since), Message: limit.Text(g.Message, maxMessage),
			Components: d.write(g.Places),
		})
	}
	out.Bound, out.Former = d.write(r.Bound), d.write(r.Former)
	out.Domains, out.Hosts, out.Refused, out.Freed = d.domains, d.hosts, writeRefused(r.Refused), r.Freed.write()
	return out
}

// dictionaries collect the domains and hosts that places refer to by index.
type dictionaries struct {
	domains  []trellisv1alpha1.PlacedDomain
	hosts    []string
	domainAt map[string]int32
	hostAt   map[string]int32
}

func newDictionaries() *dictionaries {
	return &dictionaries{domainAt: map[string]int32{}, hostAt: map[string]int32{}}
}

// domain returns the index of a domain; nil for the entire cluster.
func (d *dictionaries) domain(path topology.Path) *int32 {
	if len(path) == 0 {
		return nil
	}
	key := path.String()
	at, known := d.domainAt[key]
	if !known {
		one := trellisv1alpha1.PlacedDomain{Name: path[len(path)-1], In: d.domain(path[:len(path)-1])}
		at = int32(len(d.domains))
		d.domains = append(d.domains, one)
		d.domainAt[key] = at
	}
	return ptr.To(at)
}

func (d *dictionaries) host(name string) int32 {
	if name == "" {
		return -1
	}
	at, known := d.hostAt[name]
	if !known {
		at = int32(len(d.hosts))
		d.hosts = append(d.hosts, name)
		d.hostAt[name] = at
	}
	return at
}

// likeness has the properties that replicas in one ReplicaPlaces share.
type likeness struct {
	component, domain string
	attempt           int32
	pods              int
	neverBound        bool
}

// write lists places by component, and within a component by the lowest ordinal.
func (d *dictionaries) write(places map[Key]Place) (out []trellisv1alpha1.ComponentPlaces) {
	alike := map[likeness][]int32{}
	var order []likeness
	for _, key := range slices.SortedFunc(maps.Keys(places), Key.Compare) {
		p := places[key]
		like := likeness{key.Component, p.Domain.String(), p.Attempt, len(p.Hosts), p.NeverBound}
		if alike[like] == nil {
			order = append(order, like)
		}
		alike[like] = append(alike[like], int32(key.Ordinal))
	}
	for _, like := range order {
		if len(out) == 0 || out[len(out)-1].Component != like.component {
			out = append(out, trellisv1alpha1.ComponentPlaces{Component: like.component})
		}
		in := &out[len(out)-1]
		first := places[Key{like.component, int(alike[like][0])}]
		one := trellisv1alpha1.ReplicaPlaces{
			Replicas: WriteRanges(alike[like]), Attempt: like.attempt, Domain: d.domain(first.Domain), NeverBound: like.neverBound,
		}
		for _, ordinal := range alike[like] {
			for _, host := range places[Key{like.component, int(ordinal)}].Hosts {
				one.Hosts = append(one.Hosts, d.host(host))
			}
		}
		in.Places = append(in.Places, one)
	}
	return out
}

// Decode reads the spec of a GraphPlacement. It skips invalid entries, and replicas beyond the first 262,144.
func Decode(spec *trellisv1alpha1.GraphPlacementSpec) *Record {
	in := &decoder{paths: pathsOf(spec.Domains), hosts: spec.Hosts, left: maxReplicas}
	r := &Record{
		Domain: topology.ParsePath(spec.Domain), Gangs: map[string]Gang{}, Refused: readRefused(spec.Refused), Freed: readFreed(spec.Freed),
	}
	for _, g := range spec.Gangs {
		if places := in.read(g.Components); len(places) > 0 {
			r.Gangs[g.Name] = Gang{State: g.State, Base: g.Base, Since: seconds(g.Since.Time), Message: g.Message, Places: places}
		}
	}
	r.Bound, r.Former = in.read(spec.Bound), in.read(spec.Former)
	r.listOnce()
	return r.Clone()
}

// listOnce removes all but the first entry of each replica, in this order of lists: gangs by name, Bound, Former.
func (r *Record) listOnce() {
	listed := map[Key]bool{}
	leave := func(places map[Key]Place) {
		for key := range places {
			if listed[key] {
				delete(places, key)
			}
			listed[key] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Gangs)) {
		if leave(r.Gangs[name].Places); len(r.Gangs[name].Places) == 0 {
			delete(r.Gangs, name)
		}
	}
	leave(r.Bound)
	leave(r.Former)
}

// pathsOf returns the paths of recorded domains, by index; nil for a domain whose parent does not precede it.
func pathsOf(domains []trellisv1alpha1.PlacedDomain) []topology.Path {
	paths := make([]topology.Path, len(domains))
	for i, one := range domains {
		switch {
		case one.In == nil:
			paths[i] = topology.Path{one.Name}
		case *one.In >= 0 && int(*one.In) < i && paths[*one.In] != nil:
			paths[i] = append(slices.Clone(paths[*one.In]), one.Name)
		}
	}
	return paths
}

// decoder reads places with the dictionaries of a spec. left is the number of replicas that it still accepts.
type decoder struct {
	paths []topology.Path
	hosts []string
	left  int
}

func (d *decoder) read(components []trellisv1alpha1.ComponentPlaces) map[Key]Place {
	out := map[Key]Place{}
	for i := range components {
		for _, one := range components[i].Places {
			place := Place{Attempt: max(one.Attempt, 1), NeverBound: one.NeverBound}
			if one.Domain != nil {
				if *one.Domain < 0 || int(*one.Domain) >= len(d.paths) || d.paths[*one.Domain] == nil {
					continue
				}
				place.Domain = d.paths[*one.Domain]
			}
			var ordinals []int32
			ReadRanges(one.Replicas, func(n int32) bool {
				ordinals = append(ordinals, n)
				d.left--
				return d.left > 0
			})
			pods := len(one.Hosts) / cmp.Or(len(ordinals), 1)
			for at, ordinal := range ordinals {
				place.Hosts = nil
				for _, host := range one.Hosts[at*pods : (at+1)*pods] {
					place.Hosts = append(place.Hosts, nameOf(d.hosts, host))
				}
				out[Key{components[i].Component, int(ordinal)}] = place
			}
		}
	}
	return out
}

func nameOf(hosts []string, at int32) string {
	if at < 0 || int(at) >= len(hosts) {
		return ""
	}
	return hosts[at]
}
