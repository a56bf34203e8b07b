// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"strings"
)

// object is the one on which a leaf is tried.
type object struct {
	*attempt
	leaf *leaf
	name string
	// base is the object as it was sent, and frame its part with and without the leaf.
	base  map[string]any
	frame framed
	// at is where changes are expected.
	at string
	// before is the object without the leaf.
	before seen
	// taken are the values that were accepted.
	taken   []raw
	touched int
}

// begin creates the object without the leaf: with all that is above it, if rules allow that.
func (o *object) begin(ctx context.Context) bool {
	k := o.leaf.kind
	o.base = o.leaf.base(o.name)
	o.frame = o.leaf.frame(o.base)
	o.at = o.frame.at
	if o.leaf.part() == "status" {
		if a := k.create(ctx, o.base); !a.ok() {
			o.found(o.leaf, nil, "the base object is refused: %s", a.status().Message)
			return false
		}
		if a := k.write(ctx, k.version, o.name, "status", o.frame.none); !a.ok() {
			o.outer(refused(a))
		}
		return o.look(ctx)
	}
	whole := o.created(o.name, o.frame.none)
	if a := k.create(ctx, whole); !a.ok() {
		o.outer(refused(a))
		if a := k.create(ctx, o.base); !a.ok() {
			o.found(o.leaf, nil, "the base object is refused: %s", a.status().Message)
			return false
		}
	}
	return o.look(ctx)
}

// outer: the object has nothing that is above the leaf, because that is refused without the leaf.
func (o *object) outer(problem string) {
	if problem != "" {
		o.found(o.leaf, nil, "without the leaf: %s", problem)
	}
	if o.frame.made != "" {
		o.at = o.frame.made
	}
}

// touch the object in the other version: a write in v1alpha1 records the form that it is written in, so objects are compared after one.
func (o *object) touch(ctx context.Context) bool {
	k := o.leaf.kind
	if k.other == "" {
		return true
	}
	o.touched++
	a := k.label(ctx, k.other, o.name, o.touched)
	if !a.ok() {
		o.found(o.leaf, nil, "without the leaf, %s refuses a label: %d %s", k.other, a.code, a.status().Message)
	}
	return a.ok()
}

func (o *object) look(ctx context.Context) bool {
	if !o.touch(ctx) {
		return false
	}
	var err error
	if o.before, err = o.leaf.kind.see(ctx, o.name); err != nil {
		o.found(o.leaf, nil, "before: %v", err)
	}
	return err == nil
}

func (o *object) created(name string, part any) map[string]any {
	out := map[string]any{}
	for key, value := range o.base {
		out[key] = value
	}
	out["metadata"] = map[string]any{"name": name, "annotations": map[string]any{"example.com/mine": "yes"}}
	out[o.leaf.part()] = part
	return out
}

// set the leaf of the object, or, where a change is refused, of a new one.
func (o *object) set(ctx context.Context, value raw) {
	k := o.leaf.kind
	a := k.write(ctx, k.version, o.name, o.leaf.part(), o.frame.with(value))
	if a.ok() {
		o.Accepted++
		o.taken = append(o.taken, value)
		o.check(ctx, o.name, value, o.before.own)
		return
	}
	if problem := refused(a); problem != "" {
		o.found(o.leaf, value, "%s", problem)
	}
	if o.leaf.part() == "status" {
		return
	}
	name := o.name + "-new"
	a = k.create(ctx, o.created(name, o.frame.with(value)))
	if !a.ok() {
		if problem := refused(a); problem != "" {
			o.found(o.leaf, value, "on a new object: %s", problem)
		}
		return
	}
	o.Barred++
	o.Accepted++
	o.check(ctx, name, value, nil)
	if a := k.remove(ctx, name); !a.ok() {
		o.found(o.leaf, value, "deleting: %d %s", a.code, a.body)
	}
}

// check an object whose leaf was accepted: it reads in both versions, has the value, and nothing else changed; nor does a write by the other version.
func (o *object) check(ctx context.Context, name string, value raw, before map[string]any) {
	k := o.leaf.kind
	now, err := k.see(ctx, name)
	if err != nil {
		o.found(o.leaf, value, "accepted, then %v", err)
		return
	}
	if before != nil {
		for _, one := range beyond(changes(before, now.own, false), o.at) {
			o.found(o.leaf, value, "accepted, and changed %s", one)
		}
	}
	sent := decoded(mustJSON(map[string]any{o.leaf.part(): o.frame.with(value)}))
	for _, one := range losses(o.leaf.part(), asMap(sent)[o.leaf.part()], now.own[o.leaf.part()]) {
		o.found(o.leaf, value, "accepted, and reads as another value at %s", one)
	}
	if k.other == "" {
		return
	}
	o.touched++
	if a := k.label(ctx, k.other, name, o.touched); !a.ok() {
		o.found(o.leaf, value, "accepted, and then %s refuses another change: %d %s", k.other, a.code, a.status().Message)
		return
	}
	again, err := k.see(ctx, name)
	if err != nil {
		o.found(o.leaf, value, "accepted and written in %s, then %v", k.other, err)
		return
	}
	for _, one := range append(changes(now.own, again.own, false), changes(now.other, again.other, false)...) {
		o.found(o.leaf, value, "accepted, and a label written in %s changed %s", k.other, one)
	}
}

// unset the leaf in its own version: the object is as before.
func (o *object) unset(ctx context.Context) {
	k := o.leaf.kind
	a := k.write(ctx, k.version, o.name, o.leaf.part(), o.before.own[o.leaf.part()])
	if !a.ok() {
		if problem := refused(a); problem != "" {
			o.found(o.leaf, nil, "unsetting: %s", problem)
		}
		o.taken = nil // it stays
		return
	}
	o.asBefore(ctx, k.version)
}

// stays: admission keeps the value of who leaves it out, for it is immutable.
func (l *leaf) stays() bool { return strings.HasSuffix(l.path, ".minAvailable") }

// asBefore compares what each version reads with what it read before the first value.
func (o *object) asBefore(ctx context.Context, version string) {
	if !o.touch(ctx) {
		return
	}
	now, err := o.leaf.kind.see(ctx, o.name)
	if err != nil {
		o.found(o.leaf, nil, "unset, then %v", err)
		return
	}
	for _, one := range append(changes(o.before.own, now.own, true), changes(o.before.other, now.other, true)...) {
		if o.leaf.stays() {
			continue
		}
		o.found(o.leaf, nil, "after %d values and unsetting in %s it is not as before: %s", len(o.taken), version, one)
	}
}

// unsetByOther sets the leaf once more, and unsets it in the other version, if that can say it.
func (o *object) unsetByOther(ctx context.Context) {
	k, part := o.leaf.kind, o.leaf.part()
	if k.other == "" || len(o.taken) == 0 || o.leaf.stays() {
		return
	}
	if a := k.write(ctx, k.version, o.name, part, o.frame.with(o.taken[0])); !a.ok() {
		return // a value that only an object without it takes
	}
	set, err := k.see(ctx, o.name)
	if err != nil {
		o.found(o.leaf, o.taken[0], "%v", err)
		return
	}
	if len(differences(part, o.before.other[part], set.other[part])) == 0 {
		return // the other version cannot say it
	}
	if a := k.write(ctx, k.other, o.name, part, o.before.other[part]); !a.ok() {
		if problem := refused(a); problem != "" {
			o.found(o.leaf, o.taken[0], "unsetting in %s: %s", k.other, problem)
		}
		return
	}
	now, err := k.see(ctx, o.name)
	if err != nil {
		o.found(o.leaf, o.taken[0], "unset in %s, then %v", k.other, err)
		return
	}
	// What only its own version can say may be gone with what it is about, or be said in another place.
	for _, one := range differences(part, o.before.other[part], now.other[part]) {
		o.found(o.leaf, o.taken[0], "after unsetting in %s it is not as before: %s", k.other, one)
	}
}

// losses are what was sent and reads otherwise. What is added by default is none, nor what was sent as null.
func losses(path string, sent, got any) []string {
	var out []string
	for _, one := range differences(path, sent, got) {
		if !strings.Contains(one, ": null, then ") {
			out = append(out, one)
		}
	}
	return out
}
