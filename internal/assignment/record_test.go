// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 500, time.UTC)

// inWords is a record in one line a replica.
func inWords(r *Record) []string {
	var lines []string
	add := func(list string, places map[Key]Place) {
		for key, p := range places {
			line := fmt.Sprintf("%s %s-%d: %d. in %s", list, key.Component, key.Ordinal, p.Attempt, p.Domain)
			if len(p.Hosts) > 0 {
				line += " on " + strings.Join(p.Hosts, "+")
			}
			lines = append(lines, line)
		}
	}
	for name, g := range r.Gangs {
		add(name+" "+string(g.State), g.Places)
	}
	add("bound", r.Bound)
	add("former", r.Former)
	slices.Sort(lines)
	return lines
}

// step is a change of a record: by its pods, or by a decision.
type step func(*Record)

func shows(shown map[Key]Shown) step {
	return func(r *Record) {
		r.Follow(shown, func(k Key) bool { return k.Ordinal < 4 }, func(gang string) bool { return gang == "stands" }, now)
	}
}

func always(Key) bool   { return true }
func never(string) bool { return false }

func assigns(gang string, key Key, rack string, hosts ...string) step {
	return func(r *Record) { r.Assign(gang, key, topology.Path{"z", rack}, hosts, now) }
}

func in(gang, rack string, state State, hosts ...string) Shown {
	return Shown{Gang: gang, Domain: topology.Path{"z", rack}, Hosts: hosts, State: state}
}

func TestRecord(t *testing.T) {
	w0, w1, w9 := Key{"work", 0}, Key{"work", 1}, Key{"work", 9}
	for title, tc := range map[string]struct {
		steps []step
		want  []string
	}{
		"an assigned gang is kept while its release is under way": {
			[]step{assigns("g", w0, "a", "a0", "a1"), shows(map[Key]Shown{w0: {State: Underway}})},
			[]string{"g Assigned work-0: 1. in z/a on a0+a1"},
		},
		"and while some of its pods are bound": {
			[]step{assigns("g", w0, "a", "a0", "a1"), shows(map[Key]Shown{w0: in("g", "a", Released, "", "a1")})},
			[]string{"g Assigned work-0: 1. in z/a on a0+a1"},
		},
		"it is bound when all of it is": {
			[]step{
				assigns("g", w0, "a", "a0"), assigns("g", w1, "b", "b0"), shows(map[Key]Shown{w0: in("g", "a", AllBound), w1: in("g", "b", Released)}),
				shows(map[Key]Shown{w0: in("g", "a", AllBound), w1: in("g", "b", AllBound)}),
			},
			[]string{"bound work-0: 1. in z/a", "bound work-1: 1. in z/b"},
		},
		"and not before": {
			[]step{
				assigns("g", w0, "a", "a0"), assigns("g", w1, "b", "b0"), shows(map[Key]Shown{w0: in("g", "a", AllBound), w1: in("g", "b", Released)}),
			},
			[]string{"g Assigned work-0: 1. in z/a on a0", "g Assigned work-1: 1. in z/b on b0"},
		},
		"the rest of a replica joins its gang at the same attempt": {
			[]step{assigns("g", w0, "a", "a0", ""), assigns("g", w0, "a", "", "a1")},
			[]string{"g Assigned work-0: 1. in z/a on a0+a1"},
		},
		"a replica whose release was given back has no place": {
			[]step{assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: {State: Waits}})},
			[]string{"former work-0: 1. in z/a"},
		},
		"unless its gang keeps its places": {
			[]step{assigns("stands", w0, "a", "a0"), shows(map[Key]Shown{w0: {State: Waits}})},
			[]string{"stands Assigned work-0: 1. in z/a on a0"},
		},
		"placed again it has another attempt": {
			[]step{
				assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: in("g", "a", AllBound)}), shows(map[Key]Shown{w0: {State: Ending}}),
				shows(nil), assigns("h", w0, "b", "b0"),
			},
			[]string{"h Assigned work-0: 2. in z/b on b0"},
		},
		"what ends keeps its place until it is gone": {
			[]step{assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: in("g", "a", AllBound)}), shows(map[Key]Shown{w0: {State: Ending}})},
			[]string{"bound work-0: 1. in z/a"},
		},
		"what is not wanted any more is forgotten": {
			[]step{assigns("g", w9, "a", "a0"), shows(map[Key]Shown{w9: in("g", "a", AllBound)}), shows(nil)},
			nil,
		},
		"what runs is imported": {
			[]step{shows(map[Key]Shown{w0: in("g", "a", AllBound), w1: in("h", "b", Released, "b0")})},
			[]string{"bound work-0: 1. in z/a", "h Assigned work-1: 1. in z/b on b0"},
		},
		"pods of another gang correct it": {
			[]step{assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: in("h", "b", Released, "b0")})},
			[]string{"h Assigned work-0: 2. in z/b on b0"},
		},
		"pods without a gang are recorded when they are bound": {
			[]step{assigns("g", w0, "a", "a0"), shows(nil), shows(map[Key]Shown{w0: in("", "b", Released, "b0"), w1: in("", "b", AllBound)})},
			[]string{"bound work-1: 1. in z/b", "former work-0: 1. in z/a"},
		},
		"pods of its last attempt do not give a replica without a place one": {
			[]step{
				assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: {State: Waits}}),
				shows(map[Key]Shown{w0: {Gang: "g", Domain: topology.Path{"z", "a"}, State: AllBound, Attempt: 1}}),
			},
			[]string{"former work-0: 1. in z/a"},
		},
		"pods of a later attempt do": {
			[]step{
				assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: {State: Waits}}),
				shows(map[Key]Shown{w0: {Gang: "g", Domain: topology.Path{"z", "a"}, State: AllBound, Attempt: 2}}),
			},
			[]string{"bound work-0: 2. in z/a"},
		},
		"pods elsewhere correct it": {
			[]step{assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: in("g", "b", AllBound)})},
			[]string{"bound work-0: 1. in z/b"},
		},
		"an evicted gang stays one until its pods are gone": {
			[]step{
				assigns("g", w0, "a", "a0"), assigns("g", w1, "b", "b0"), func(r *Record) { r.Evict("g", []Key{w0}, "no place", now) },
				shows(map[Key]Shown{w1: {State: Ending}}),
			},
			[]string{"former work-0: 1. in z/a", "g Evicting work-1: 1. in z/b on b0"},
		},
		"bound replicas are evicted, too": {
			[]step{
				assigns("g", w0, "a", "a0"), shows(map[Key]Shown{w0: in("g", "a", AllBound)}), func(r *Record) { r.Evict("g", []Key{w0}, "no place", now) },
			},
			[]string{"g Evicting work-0: 1. in z/a"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			r := (&Record{}).Clone()
			for _, do := range tc.steps {
				do(r)
			}
			if diff := cmp.Diff(tc.want, inWords(r)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// An eviction is announced once, and one of a gang that nothing is known of records nothing.
func TestEvictOnce(t *testing.T) {
	r := (&Record{}).Clone()
	r.Assign("g", Key{"work", 0}, nil, nil, now)
	if !r.Evict("g", nil, "lost", now) || r.Evict("g", nil, "lost", now.Add(time.Minute)) {
		t.Error("the second eviction is new, or the first one is not")
	}
	if r.Evict("h", nil, "lost", now) || len(r.Gangs) != 1 {
		t.Errorf("gangs: %v", r.Gangs)
	}
	if g := r.Gangs["g"]; g.Message != "lost" || !g.Since.Equal(now.Truncate(time.Second)) {
		t.Errorf("got %q since %v", g.Message, g.Since)
	}
}

// A gang of which a replica is placed again keeps its time, or it would never be complete too late.
func TestAGangKeepsItsTime(t *testing.T) {
	r := (&Record{}).Clone()
	r.Assign("g", Key{"work", 0}, nil, []string{"a0"}, now)
	r.Restart(Key{"work", 0})
	r.Assign("g", Key{"work", 0}, nil, []string{"a1"}, now.Add(time.Minute))
	if g := r.Gangs["g"]; !g.Since.Equal(now.Truncate(time.Second)) || r.AttemptOf(Key{"work", 0}) != 2 {
		t.Errorf("attempt %d since %v", r.AttemptOf(Key{"work", 0}), g.Since)
	}
}

// The domain of a graph is forgotten with its last place.
func TestTheDomainEnds(t *testing.T) {
	r := (&Record{}).Clone()
	r.Domain = topology.Path{"z"}
	r.Assign("g", Key{"work", 0}, topology.Path{"z"}, nil, now)
	if r.Follow(map[Key]Shown{{"work", 0}: {State: Underway}}, always, never, now); r.Domain == nil {
		t.Error("forgotten while a replica has a place")
	}
	if r.Follow(nil, always, never, now); r.Domain != nil {
		t.Errorf("kept: %v", r.Domain)
	}
}

var names = rapid.SampledFrom([]string{"a", "b", "c-1", "d.2"})

// drawn is any record.
func drawn(t *rapid.T) *Record {
	r := (&Record{}).Clone()
	key := rapid.Custom(func(t *rapid.T) Key { return Key{names.Draw(t, "component"), rapid.IntRange(0, 20).Draw(t, "ordinal")} })
	path := rapid.Map(rapid.SliceOfN(names, 0, 3), func(p []string) topology.Path { return p })
	host := rapid.SampledFrom([]string{"", "n0", "n1", "n2"})
	for range rapid.IntRange(0, 30).Draw(t, "replicas") {
		r.Assign(names.Draw(t, "gang"), key.Draw(t, "key"), path.Draw(t, "path"), rapid.SliceOfN(host, 0, 3).Draw(t, "hosts"), now)
	}
	r.Begins(names.Draw(t, "base"))
	for range rapid.IntRange(0, 5).Draw(t, "evicted") {
		r.Evict(names.Draw(t, "gang"), nil, names.Draw(t, "why"), now)
	}
	shown := map[Key]Shown{}
	for known := range r.keys() {
		shown[known] = Shown{State: State(rapid.IntRange(int(Waits), int(Ending)).Draw(t, "state")), Domain: path.Draw(t, "path")}
	}
	r.Follow(shown, func(k Key) bool { return k.Ordinal%2 == 0 }, never, now)
	if len(r.Bound) > 0 {
		r.Domain = path.Draw(t, "domain")
	}
	return r
}

// Decode is the inverse of Encode, and lists each replica once.
func TestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawn(t)
		spec := r.Encode("uid")
		raw, err := json.Marshal(&spec)
		if err != nil {
			t.Fatal(err)
		}
		read := trellisv1alpha1.GraphPlacementSpec{}
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		if again := Decode(&read); !r.Equal(again) {
			t.Fatalf("written and read back (-want +got):\n%s\nfrom %s", cmp.Diff(inWords(r), inWords(again)), raw)
		}
		if room := r.Room(); room > MaxBytes-len(raw) {
			t.Fatalf("%d bytes are taken, and room for %d of %d is reported", len(raw), room, MaxBytes)
		}
		seen := map[Key]bool{}
		for _, list := range append([]map[Key]Place{r.Bound, r.Former}, placesOf(r)...) {
			for key := range list {
				if seen[key] {
					t.Fatalf("%v is listed twice: %q", key, inWords(r))
				}
				seen[key] = true
			}
		}
	})
}

func placesOf(r *Record) (all []map[Key]Place) {
	for _, g := range r.Gangs {
		all = append(all, g.Places)
	}
	return all
}

// Decode leaves out entries that Encode never writes.
func TestWhatIsNotUnderstood(t *testing.T) {
	at := func(n int32) *int32 { return &n }
	spec := &trellisv1alpha1.GraphPlacementSpec{
		Domains: []trellisv1alpha1.PlacedDomain{{Name: "r", In: at(1)}, {Name: "z"}, {Name: "r", In: at(1)}, {Name: "x", In: at(7)}},
		Bound: []trellisv1alpha1.ComponentPlaces{{Component: "work", Places: []trellisv1alpha1.ReplicaPlaces{
			{Replicas: "0", Domain: at(0)}, {Replicas: "1", Domain: at(2)}, {Replicas: "2", Domain: at(3)}, {Replicas: "3", Domain: at(-1)},
			{Replicas: "x,-1,7-5", Domain: at(1)}, {Replicas: "8,9", Hosts: []int32{0, 5, -4}},
		}}},
		Hosts: []string{"n0"},
	}
	spec.Former = []trellisv1alpha1.ComponentPlaces{{Component: "work", Places: []trellisv1alpha1.ReplicaPlaces{{Replicas: "8,10"}}}}
	spec.Gangs = []trellisv1alpha1.PlacedGang{
		{Name: "a", Components: spec.Former},
		{Name: "b", Components: []trellisv1alpha1.ComponentPlaces{{Component: "work", Places: []trellisv1alpha1.ReplicaPlaces{{Replicas: "10"}}}}},
	}
	want := []string{"a  work-10: 1. in ", "a  work-8: 1. in ", "bound work-1: 1. in z/r", "bound work-9: 1. in  on "}
	if diff := cmp.Diff(want, inWords(Decode(spec))); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// 10,000 pods with the longest labels are recorded in less than 1 MiB, before they are bound and after.
func TestSizeOfARecord(t *testing.T) {
	long := func(format string, n int) string {
		name := fmt.Sprintf(format, n)
		return strings.Repeat("x", 63-len(name)) + name
	}
	for title, pods := range map[string]int{"replicas of one pod": 1, "replicas of 8 pods": 8} {
		t.Run(title, func(t *testing.T) {
			r, shown, component := (&Record{}).Clone(), map[Key]Shown{}, strings.Repeat("c", 63)
			for replica := range 10_000 / pods {
				path := topology.Path{long("zone%d", 0), long("block%d", replica*pods/1000), long("rack%d", replica*pods/128)}
				var hosts []string
				for pod := range pods {
					hosts = append(hosts, long("host%d", (replica*pods+pod)/8))
				}
				key := Key{component, replica}
				r.Assign("base", key, path, hosts, now)
				shown[key] = Shown{State: AllBound, Domain: path}
			}
			if room := r.Room(); room < 0 {
				t.Errorf("assigned: %d bytes too many", -room)
			}
			r.Follow(shown, always, never, now)
			if room := r.Room(); len(r.Bound) != 10_000/pods || room < 0 {
				t.Errorf("bound: %d replicas, %d bytes left", len(r.Bound), room)
			}
		})
	}
}

// The number of decoded replicas is bounded, whatever ranges a client wrote.
func TestDecodeIsBounded(t *testing.T) {
	spec := &trellisv1alpha1.GraphPlacementSpec{}
	for i := range 100 {
		spec.Bound = append(spec.Bound, trellisv1alpha1.ComponentPlaces{
			Component: fmt.Sprint("c", i), Places: []trellisv1alpha1.ReplicaPlaces{{Replicas: "0-131071,0-131071"}},
		})
	}
	if n := len(Decode(spec).Bound); n > maxReplicas || n < maxReplicas/4 {
		t.Errorf("%d replicas", n)
	}
}
