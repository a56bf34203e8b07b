// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignment holds the content of a GraphPlacement: the assigned gangs of a graph, its bound replicas, and the last places of its
// other replicas. It has neither clients nor a clock.
//
//	GraphPlacement ──Decode──> Record ──Follow (the pods), Assign (a plan), Evict──> Record ──Encode──> GraphPlacement
//
// A replica is in one of three lists: a gang, Bound, or Former. Each placement increments the replica's attempt.
package assignment

import (
	"cmp"
	"maps"
	"slices"
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Key identifies one replica of a graph.
type Key struct {
	Component string
	Ordinal   int
}

// Compare orders replicas by component and ordinal.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Component, other.Component), cmp.Compare(k.Ordinal, other.Ordinal))
}

// Place is the domain of one replica, and the planned hosts of its unbound pods.
type Place struct {
	// Attempt counts the placements of the replica, from 1.
	Attempt int32
	// Domain is the domain that the pods are pinned to; empty for the entire cluster.
	Domain topology.Path
	// Hosts are the planned hosts of the pods, by index; "" for a pod with a node or without a planned host. Hosts is nil if no pod has a
	// planned host.
	Hosts []string
	// NeverBound: at no attempt so far were all pods of the replica bound.
	NeverBound bool
}

func (p Place) equal(other Place) bool {
	return p.Attempt == other.Attempt && p.NeverBound == other.NeverBound && p.Domain.Equal(other.Domain) && slices.Equal(p.Hosts, other.Hosts)
}

// Gang is an unbound or evicted gang.
type Gang struct {
	State trellisv1alpha1.GangState
	// Since is the beginning of the state, in whole seconds.
	Since time.Time
	// Base marks the base gang of the graph.
	Base bool
	// Message is the reason for the state; "" for a first assignment.
	Message string
	Places  map[Key]Place
}

// Record lists the places of the replicas of a graph. The zero value is an empty record. Call [Record.Clone] before you change a record.
type Record struct {
	// Domain is the graph domain; empty if none is required, or before it is chosen.
	Domain topology.Path
	// Gangs are the unbound and evicted gangs by name.
	Gangs map[string]Gang
	// Bound has the replicas of bound gangs. Former has the last places of replicas that have no place now.
	Bound, Former map[Key]Place
	// Refused are the places where a scheduler refused pods of the graph; see [Record.SetRefused].
	Refused []Refused
	// Freed are the hosts that replicas of other graphs vacate for this graph; nil for none. Clones share the value, so do not change it.
	Freed *Freed
	// gangOf is the gang of each replica in Gangs.
	gangOf map[Key]string
}

// Clone returns a copy that can be changed.
func (r *Record) Clone() *Record {
	out := &Record{
		Domain: r.Domain, Gangs: make(map[string]Gang, len(r.Gangs)), Bound: maps.Clone(r.Bound), Former: maps.Clone(r.Former),
		Refused: slices.Clone(r.Refused), Freed: r.Freed, gangOf: map[Key]string{},
	}
	for name, g := range r.Gangs {
		g.Places = maps.Clone(g.Places)
		out.Gangs[name] = g
		for key := range g.Places {
			out.gangOf[key] = name
		}
	}
	if out.Bound == nil {
		out.Bound = map[Key]Place{}
	}
	if out.Former == nil {
		out.Former = map[Key]Place{}
	}
	return out
}

// Equal reports whether two records have the same content.
func (r *Record) Equal(other *Record) bool {
	return r.Domain.Equal(other.Domain) && maps.EqualFunc(r.Bound, other.Bound, Place.equal) &&
		maps.EqualFunc(r.Former, other.Former, Place.equal) && maps.EqualFunc(r.Gangs, other.Gangs, Gang.equal) &&
		slices.EqualFunc(r.Refused, other.Refused, Refused.equal) && r.Freed.Equal(other.Freed)
}

func (g Gang) equal(other Gang) bool {
	return g.State == other.State && g.Base == other.Base && g.Since.Equal(other.Since) && g.Message == other.Message &&
		maps.EqualFunc(g.Places, other.Places, Place.equal)
}

// GangOf returns the name of the gang of a replica; "" for a replica in no gang.
func (r *Record) GangOf(key Key) string { return r.gangOf[key] }

// Members returns the replicas of a gang, and whether the gang is the base gang.
func (r *Record) Members(gang string) (members []Key, base bool) {
	return slices.Collect(maps.Keys(r.Gangs[gang].Places)), r.Gangs[gang].Base
}

// Assigned returns the place of a replica in an assigned gang; false for none.
func (r *Record) Assigned(key Key) (Place, bool) {
	g := r.Gangs[r.gangOf[key]]
	return g.Places[key], g.State == trellisv1alpha1.GangAssigned
}

// keys returns all recorded replicas, with their gangs.
func (r *Record) keys() map[Key]string {
	out := maps.Clone(r.gangOf)
	for _, list := range []map[Key]Place{r.Former, r.Bound} {
		for key := range list {
			out[key] = ""
		}
	}
	return out
}

// take removes a replica from its list, and returns the replica's last place.
func (r *Record) take(key Key) Place {
	var last Place
	for _, list := range []map[Key]Place{r.Former, r.Bound} {
		if p, has := list[key]; has {
			last = p
			delete(list, key)
		}
	}
	if name, in := r.gangOf[key]; in {
		places := r.Gangs[name].Places
		last = places[key]
		delete(places, key)
		if delete(r.gangOf, key); len(places) == 0 {
			delete(r.Gangs, name)
		}
	}
	return last
}

// Assign gives a replica a place in a gang. hosts are the planned hosts of its pods, by index. A replica that is already in the gang keeps
// its attempt, because only its remaining pods are placed.
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
	g.Places[key] = Place{Attempt: last.Attempt + 1, Domain: domain, Hosts: hosts, NeverBound: last.Attempt == 0 || last.NeverBound}
	r.gangOf[key] = gang
}

// Restart prepares the next attempt of a replica that is placed again in its gang. The gang keeps its Since time, because the gang has a
// deadline to be complete, however often a replica is placed again.
func (r *Record) Restart(key Key) {
	g, known := r.Gangs[r.gangOf[key]]
	if !known {
		return
	}
	p := g.Places[key]
	p.Attempt, p.Hosts = p.Attempt+1, nil
	g.Places[key] = p
}

// Raise raises the attempt of a replica in a gang to at least the given attempt.
func (r *Record) Raise(key Key, attempt int32) {
	if gang := r.gangOf[key]; gang != "" {
		p := r.Gangs[gang].Places[key]
		p.Attempt = max(p.Attempt, attempt)
		r.Gangs[gang].Places[key] = p
	}
}

// PlaceOf returns the recorded place of a replica, which may be its last place in Former; false for none.
func (r *Record) PlaceOf(key Key) (place Place, recorded bool) {
	if r == nil {
		return Place{}, false
	}
	if place, recorded = r.Gangs[r.gangOf[key]].Places[key]; recorded {
		return place, true
	}
	if place, recorded = r.Bound[key]; recorded {
		return place, true
	}
	place, recorded = r.Former[key]
	return place, recorded
}

// Ran reports whether pods of a replica are or were in its recorded place. It returns false for a place with planned hosts in an assigned
// gang, because the pods may not exist yet.
func (r *Record) Ran(key Key) bool {
	place, recorded := r.PlaceOf(key)
	return recorded && (len(place.Hosts) == 0 || r.Evicting(r.gangOf[key]))
}

// FormerDomain returns the domain of a replica's last place; nil for none. It returns nil for a place with planned hosts if the replica was
// never bound. If the replica was bound before, it may already be bound at the planned hosts: the record shows this with a delay.
func (r *Record) FormerDomain(key Key) topology.Path {
	if place, _ := r.PlaceOf(key); len(place.Hosts) == 0 || !place.NeverBound {
		return place.Domain
	}
	return nil
}

// AttemptOf returns the last attempt of a replica; 0 for none.
func (r *Record) AttemptOf(key Key) int32 {
	place, _ := r.PlaceOf(key)
	return place.Attempt
}

// LowestAttempt returns the lowest attempt at which the pods of a replica are valid. For a replica in Former, this is the attempt after the
// last attempt. Pods of the last attempt are not valid, even if another operator instance released or created them late.
func (r *Record) LowestAttempt(key Key) int32 {
	if last, is := r.Former[key]; is {
		return last.Attempt + 1
	}
	return r.AttemptOf(key)
}

// mergeHosts adds the planned hosts of further pods.
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

// Begins marks a gang as the base gang of the graph.
func (r *Record) Begins(gang string) {
	if g, known := r.Gangs[gang]; known {
		g.Base = true
		r.Gangs[gang] = g
	}
}

// Evict records the eviction of a gang with its replicas. It returns false if the eviction is already recorded, or there are no replicas.
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
			r.gangOf[key] = gang
		}
	}
	if len(places) == 0 {
		return false
	}
	base := r.Gangs[gang].Base
	r.Gangs[gang] = Gang{State: trellisv1alpha1.GangEvicting, Since: seconds(now), Base: base, Message: message, Places: places}
	return true
}

// Keep ends the eviction of a gang without deleting the gang's pods. since is the time at which the gang was assigned.
func (r *Record) Keep(gang string, since time.Time) {
	if g, known := r.Gangs[gang]; known && g.State == trellisv1alpha1.GangEvicting {
		g.State, g.Since, g.Message = trellisv1alpha1.GangAssigned, seconds(since), ""
		r.Gangs[gang] = g
	}
}

// seconds truncates a time to the precision of the API server.
func seconds(t time.Time) time.Time { return t.Truncate(time.Second).UTC() }
