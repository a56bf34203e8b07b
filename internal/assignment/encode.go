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

// maxMessage is how many bytes of a message are stored.
const maxMessage = 1024

// Encode writes a record as the spec of a GraphPlacement. Equal records are written the same.
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
	out.Domains, out.Hosts = d.domains, d.hosts
	return out
}

// dictionaries are the domains and hosts that places refer to.
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

// likeness is what replicas have in common that are written together.
type likeness struct {
	component, domain string
	attempt           int32
	pods              int
}

// write lists places by component, those of each by their lowest ordinal.
func (d *dictionaries) write(places map[Key]Place) (out []trellisv1alpha1.ComponentPlaces) {
	alike := map[likeness][]int32{}
	var order []likeness
	for _, key := range slices.SortedFunc(maps.Keys(places), Key.Compare) {
		p := places[key]
		like := likeness{key.Component, p.Domain.String(), p.Attempt, len(p.Hosts)}
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
		one := trellisv1alpha1.ReplicaPlaces{Replicas: WriteRanges(alike[like]), Attempt: like.attempt, Domain: d.domain(first.Domain)}
		for _, ordinal := range alike[like] {
			for _, host := range places[Key{like.component, int(ordinal)}].Hosts {
				one.Hosts = append(one.Hosts, d.host(host))
			}
		}
		in.Places = append(in.Places, one)
	}
	return out
}

// Decode reads the spec of a GraphPlacement. What it does not understand is left out, as if it had not been recorded.
func Decode(spec *trellisv1alpha1.GraphPlacementSpec) *Record {
	paths := pathsOf(spec.Domains)
	r := (&Record{Domain: topology.ParsePath(spec.Domain)}).Clone()
	for _, g := range spec.Gangs {
		if places := read(g.Components, paths, spec.Hosts); len(places) > 0 {
			r.Gangs[g.Name] = Gang{State: g.State, Base: g.Base, Since: seconds(g.Since.Time), Message: g.Message, Places: places}
		}
	}
	r.Bound, r.Former = read(spec.Bound, paths, spec.Hosts), read(spec.Former, paths, spec.Hosts)
	r.listOnce()
	return r
}

// listOnce leaves each replica in the first of its lists: gangs by name, Bound, Former.
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

// pathsOf are the paths of recorded domains by their index; nil for one that is in none that comes before it.
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

func read(components []trellisv1alpha1.ComponentPlaces, paths []topology.Path, hosts []string) map[Key]Place {
	out := map[Key]Place{}
	for i := range components {
		for _, one := range components[i].Places {
			place := Place{Attempt: max(one.Attempt, 1)}
			if one.Domain != nil {
				if *one.Domain < 0 || int(*one.Domain) >= len(paths) || paths[*one.Domain] == nil {
					continue
				}
				place.Domain = paths[*one.Domain]
			}
			var ordinals []int32
			ReadRanges(one.Replicas, func(n int32) { ordinals = append(ordinals, n) })
			pods := len(one.Hosts) / cmp.Or(len(ordinals), 1)
			for at, ordinal := range ordinals {
				place.Hosts = nil
				for _, host := range one.Hosts[at*pods : (at+1)*pods] {
					place.Hosts = append(place.Hosts, nameOf(hosts, host))
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
