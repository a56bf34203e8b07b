// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// How many leaves go test tries, and values of each.
const (
	sampleLeaves = 36
	sampleValues = 5
	workers      = 4
	// podValues of each field of a pod's spec are tried where all fields are: there are thousands of them, and few are looked at.
	podValues = 4
)

// trial is one leaf with the values to try.
type trial struct {
	*leaf
	values []raw
}

// fault is what a value showed.
type fault struct {
	*leaf
	value   raw
	problem string
}

// suite counts.
type suite struct {
	t        *testing.T
	names    atomic.Int64
	done     atomic.Int64
	tried    atomic.Int64
	accepted atomic.Int64
	barred   atomic.Int64

	mu     sync.Mutex
	faults []fault
}

func (s *suite) found(l *leaf, value raw, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := fault{l, value, fmt.Sprintf(format, args...)}
	s.faults = append(s.faults, f)
	fmt.Printf("%s = %s: %s\n", l, short(json.RawMessage(quotedIfOdd(value))), f.problem) // a long run shows it at once
}

// Every leaf of what users write is set, changed and unset.
func TestLeaves(t *testing.T) {
	tier.All(t)
	var all []*leaf
	for _, k := range kinds(t) {
		all = append(all, k.leaves()...)
	}
	s := &suite{t: t}
	s.surroundings()
	trials := corpus(t, all)
	replayed := len(trials)
	switch what := os.Getenv("TRELLIS_INPUT"); what {
	case "":
		trials = append(trials, sample(t, all)...)
	default:
		random := seeded(t)
		for _, l := range all {
			switch {
			case what != "all" && !strings.Contains(l.String(), what):
			case l.inPod() && !strings.Contains(strings.ToLower(what), "pod"):
				trials = append(trials, trial{l, some(random, values(l.schema), podValues)})
			default:
				trials = append(trials, trial{l, values(l.schema)})
			}
		}
	}
	begin := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(workers)
	for _, one := range trials {
		group.Go(func() error {
			s.try(ctx, one)
			if done := s.done.Add(1); done%100 == 0 {
				fmt.Printf("%d of %d fields in %v\n", done, len(trials), time.Since(begin).Round(time.Second))
			}
			return nil
		})
	}
	_ = group.Wait()
	t.Logf("%d of %d fields, %d of them from testdata/corpus: %d values, %d of them accepted, %d fields only on a new object; %d requests in %v",
		len(trials), len(all), replayed, s.tried.Load(), s.accepted.Load(), s.barred.Load(), asked.Load(), time.Since(begin).Round(time.Second))
	s.report()
}

// inPod: the field is one of a pod's spec.
func (l *leaf) inPod() bool {
	return strings.Contains(l.path, ".extraPodSpec.") || strings.Contains(l.path, ".podTemplate.spec.")
}

// seeded is a source that gives the same again by the seed that is printed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TRELLIS_INPUT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TRELLIS_INPUT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// some of the values: the valid one and others.
func some(random *rand.Rand, all []raw, n int) []raw {
	random.Shuffle(len(all)-1, func(i, j int) { all[i+1], all[j+1] = all[j+1], all[i+1] })
	return all[:min(n, len(all))]
}

// sample some fields and some of their values. Each kind has its share.
func sample(t *testing.T, all []*leaf) []trial {
	t.Helper()
	random := seeded(t)
	byKind := map[string][]*leaf{}
	for _, l := range all {
		byKind[l.kind.String()] = append(byKind[l.kind.String()], l)
	}
	var out []trial
	for _, k := range kinds(t) {
		mine := byKind[k.String()]
		share := 2
		if len(mine) > 500 {
			share = sampleLeaves / 2
		}
		for range share {
			l := mine[random.IntN(len(mine))]
			out = append(out, trial{l, some(random, values(l.schema), sampleValues)})
		}
	}
	return out
}

// surroundings are the topologies that deployments name.
func (s *suite) surroundings() {
	for _, k := range kinds(s.t) {
		if k.definition.Spec.Names.Kind != "ClusterTopology" {
			continue
		}
		for _, name := range []string{"a", "x"} {
			object := tree(s.t, bases[k.String()])
			object["metadata"] = map[string]any{"name": name}
			if err := until(s.t.Context(), func() error {
				if a := k.create(s.t.Context(), object); !a.ok() && a.code != 409 {
					return fmt.Errorf("%d %s", a.code, a.body)
				}
				return nil
			}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// try a leaf.
func (s *suite) try(ctx context.Context, one trial) {
	l := one.leaf
	defer func() {
		if fault := recover(); fault != nil {
			s.found(l, nil, "this test panics: %v", fault)
		}
	}()
	o := &object{suite: s, leaf: l, name: fmt.Sprintf("g%d", s.names.Add(1))}
	if !o.begin(ctx) {
		return
	}
	for _, value := range one.values {
		s.tried.Add(1)
		o.set(ctx, value)
	}
	o.unset(ctx)
	o.unsetByOther(ctx)
	if a := l.kind.remove(ctx, o.name); !a.ok() {
		s.found(l, nil, "deleting: %d %s", a.code, a.body)
	}
}

// report says each fault once, and keeps its input.
func (s *suite) report() {
	slices.SortFunc(s.faults, func(a, b fault) int {
		return cmp.Or(strings.Compare(a.leaf.String(), b.leaf.String()), strings.Compare(string(a.value), string(b.value)))
	})
	for _, f := range s.faults {
		kept := ""
		if f.value != nil {
			kept = keep(s.t, f)
		}
		s.t.Errorf("%s = %s: %.500s%s", f.leaf, short(json.RawMessage(quotedIfOdd(f.value))), f.problem, kept)
	}
}

func quotedIfOdd(value raw) []byte {
	if json.Valid(value) {
		return value
	}
	return []byte("null")
}
