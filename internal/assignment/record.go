// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignment is where the replicas of a graph are, or are to be, as a GraphPlacement records it: which gangs are assigned, which
// replicas are bound, and where those were that have no place now. It has neither clients nor a clock.
//
//	GraphPlacement ──Decode──> Record ──Follow (what pods show), Assign (a plan), Evict──> Record ──Encode──> GraphPlacement
//
// A replica is in one of three lists: in a gang, in Bound, or in Former. Its attempt grows each time that it is placed again.
package assignment

import (
	"cmp"
	"maps"
	"slices"
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Key names one replica of a graph.
type Key struct {
	Component string
	Ordinal   int
}

// Compare orders replicas by component and ordinal.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Component, other.Component), cmp.Compare(k.Ordinal, other.Ordinal))
}

// Place is that of one replica.
type Place struct {
	// Attempt is how often the replica has been placed, 1 or more.
	Attempt int32
	// Domain that its pods are pinned to; empty for the entire cluster.
	Domain topology.Path
	// Hosts of its pods, by index; "" for a pod that has a node, or none planned. Nil when that is so for all of them.
	Hosts []string
}

func (p Place) equal(other Place) bool {
	return p.Attempt == other.Attempt && p.Domain.Equal(other.Domain) && slices.Equal(p.Hosts, other.Hosts)
}

// Gang is one that is not bound yet, or is being evicted.
type Gang struct {
	State trellisv1alpha1.GangState
	// Since is when the state began, in whole seconds.
	Since time.Time
	// Base means that the graph begins with the gang.
	Base bool
	// Message says why it is in its state; "" when it is assigned for the first time.
	Message string
	Places  map[Key]Place
}

// Record is where the replicas of a graph are, or are to be. The zero value is that of a graph which was never placed.
type Record struct {
	// Domain that the entire graph has to be in; empty while it is not decided, or without such a constraint.
	Domain topology.Path
	// Gangs by name.
	Gangs map[string]Gang
	// Bound are the replicas of gangs of which all pods have had a node, Former the last places of those that have none now.
	Bound, Former map[Key]Place
}

// Clone returns a copy whose maps can be changed.
func (r *Record) Clone() *Record {
	out := &Record{Domain: r.Domain, Gangs: make(map[string]Gang, len(r.Gangs)), Bound: maps.Clone(r.Bound), Former: maps.Clone(r.Former)}
	for name, g := range r.Gangs {
		g.Places = maps.Clone(g.Places)
		out.Gangs[name] = g
	}
	if out.Bound == nil {
		out.Bound = map[Key]Place{}
	}
	if out.Former == nil {
		out.Former = map[Key]Place{}
	}
	return out
}

// Equal reports whether two records say the same.
func (r *Record) Equal(other *Record) bool {
	return r.Domain.Equal(other.Domain) && maps.EqualFunc(r.Bound, other.Bound, Place.equal) &&
		maps.EqualFunc(r.Former, other.Former, Place.equal) && r.SameGangs(other)
}

// SameGangs reports whether two records have the same gangs, with the same states and places.
func (r *Record) SameGangs(other *Record) bool {
	return maps.EqualFunc(r.Gangs, other.Gangs, func(a, b Gang) bool {
		return a.State == b.State && a.Base == b.Base && a.Since.Equal(b.Since) && a.Message == b.Message &&
			maps.EqualFunc(a.Places, b.Places, Place.equal)
	})
}

// IsEmpty reports whether nothing was ever placed.
func (r *Record) IsEmpty() bool { return len(r.Gangs)+len(r.Bound)+len(r.Former) == 0 }

// GangOf returns the name of the gang that a replica is in; "" for none.
func (r *Record) GangOf(key Key) string {
	for name, g := range r.Gangs {
		if _, has := g.Places[key]; has {
			return name
		}
	}
	return ""
}

// Keys are the replicas that have places, or had one.
func (r *Record) keys() map[Key]string {
	out := map[Key]string{}
	for _, list := range []map[Key]Place{r.Former, r.Bound} {
		for key := range list {
			out[key] = ""
		}
	}
	for name, g := range r.Gangs {
		for key := range g.Places {
			out[key] = name
		}
	}
	return out
}

// take removes a replica from wherever it is, and returns its last place.
func (r *Record) take(key Key) Place {
	var last Place
	for _, list := range []map[Key]Place{r.Former, r.Bound} {
		if p, has := list[key]; has {
			last = p
			delete(list, key)
		}
	}
	for name, g := range r.Gangs {
		if p, has := g.Places[key]; has {
			last = p
			if delete(g.Places, key); len(g.Places) == 0 {
				delete(r.Gangs, name)
			}
		}
	}
	return last
}

// Assign gives a replica its place with a gang. hosts are those of its pods that are to be bound, by index. A replica that is in the gang
// already stays at its attempt: the rest of its pods follows.
func (r *Record) Assign(gang string, key Key, domain topology.Path, hosts []string, now time.Time) {
	if p, has := r.Gangs[gang].Places[key]; has {
		p.Domain, p.Hosts = domain, mergeHosts(p.Hosts, hosts)
		r.Gangs[gang].Places[key] = p
		return
	}
	last := r.take(key)
	g, known := r.Gangs[gang]
	if !known {
		g = Gang{State: trellisv1alpha1.GangAssigned, Since: seconds(now), Places: map[Key]Place{}}
		r.Gangs[gang] = g
	}
	g.Places[key] = Place{Attempt: last.Attempt + 1, Domain: domain, Hosts: hosts}
}

// mergeHosts adds hosts of further pods.
func mergeHosts(of, further []string) []string {
	out := slices.Clone(of)
	for i, host := range further {
		switch {
		case i >= len(out):
			out = append(out, host)
		case host != "":
			out[i] = host
		}
	}
	return out
}

// Begins notes that a graph begins with a gang.
func (r *Record) Begins(gang string) {
	if g, known := r.Gangs[gang]; known {
		g.Base = true
		r.Gangs[gang] = g
	}
}

// Evict notes that a gang with some replicas is being evicted, and why. It reports whether that is new.
func (r *Record) Evict(gang string, keys []Key, message string, now time.Time) bool {
	if g, known := r.Gangs[gang]; known && g.State == trellisv1alpha1.GangEvicting {
		return false
	}
	places := map[Key]Place{}
	if g, known := r.Gangs[gang]; known {
		places = g.Places
	}
	for _, key := range keys {
		if _, has := places[key]; !has {
			last := r.take(key)
			last.Attempt = max(last.Attempt, 1)
			places[key] = last
		}
	}
	if len(places) == 0 {
		return false
	}
	r.Gangs[gang] = Gang{State: trellisv1alpha1.GangEvicting, Since: seconds(now), Message: message, Places: places}
	return true
}

// seconds is a time as the API server stores it.
func seconds(t time.Time) time.Time { return t.Truncate(time.Second).UTC() }
