// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Variables of the environment.
const (
	// fieldsVariable chooses fields: all, those whose kind and path have this text, or, where it is empty, a sample.
	fieldsVariable = "TRELLIS_INPUT"
	// seedVariable repeats a sample.
	seedVariable = "TRELLIS_INPUT_SEED"
)

// How many leaves go test tries, and values of each.
const (
	sampleLeaves = 36
	sampleValues = 5
	// podValues of each field of a pod's spec are tried where all fields are: there are thousands of them, and few are looked at.
	podValues = 4
)

var _ = Describe("A field of what users write", func() {
	// The objects of all fields: the table below tries some of them only.
	It("has an object to try it on, which is accepted", func(ctx SpecContext) {
		tried := map[string]bool{}
		var refusals []string
		for _, l := range fields() {
			content := string(mustJSON(l.base("")))
			if tried[content] {
				continue
			}
			tried[content] = true
			name := fmt.Sprintf("base%d", len(tried))
			if a := l.kind.create(ctx, l.base(name)); !a.ok() {
				refusals = append(refusals, fmt.Sprintf("%s: %s", l, a.status().Message))
			} else if a := l.kind.remove(ctx, name); !a.ok() {
				refusals = append(refusals, fmt.Sprintf("%s: deleting: %s", l, a.status().Message))
			}
		}
		Expect(refusals).To(BeEmpty())
		Expect(len(tried)).To(BeNumerically(">", len(bases)), "objects of %d kinds", len(bases))
	}, SpecTimeout(suite.Timeout()))

	DescribeTable("can be set, changed and unset without a fault", func(ctx SpecContext, one trial) {
		t := &attempt{trial: one, name: uniqueName()}
		before := asked.Load()
		t.run(ctx)
		t.Requests = asked.Load() - before
		AddReportEntry(counted, t.counts, ReportEntryVisibilityNever)
		if len(t.faults) > 0 {
			Fail(t.report())
		}
	}, trials())
})

// fields are the leaves of all kinds.
func fields() []*leaf {
	var out []*leaf
	for _, k := range kinds() {
		out = append(out, k.leaves()...)
	}
	return out
}

// trial is one leaf with the values to try.
type trial struct {
	*leaf
	values []raw
}

// trials are what once failed, and the fields that are chosen. Every process has the same.
func trials() []TableEntry {
	all := fields()
	replayed, err := corpus(all)
	if err != nil {
		panic(err) // specs are made of it: there is none yet that could fail
	}
	var out []TableEntry
	for _, file := range slices.Sorted(maps.Keys(replayed)) {
		out = append(out, Entry(replayed[file].String()+", "+file, SpecTimeout(suite.Timeout()), replayed[file]))
	}
	for _, one := range chosen(all) {
		out = append(out, Entry(one.String(), SpecTimeout(suite.Timeout()), one))
	}
	return out
}

func chosen(all []*leaf) []trial {
	random, what := seeded(), os.Getenv(fieldsVariable)
	if what == "" {
		return sample(all, random)
	}
	var out []trial
	for _, l := range all {
		switch {
		case what != "all" && !strings.Contains(l.String(), what):
		case l.inPod() && !strings.Contains(strings.ToLower(what), "pod"):
			out = append(out, trial{l, some(random, values(l.schema), podValues)})
		default:
			out = append(out, trial{l, values(l.schema)})
		}
	}
	if len(out) == 0 {
		panic(fmt.Sprintf("%s=%s: no field has this text in its kind and path", fieldsVariable, what))
	}
	return out
}

// inPod: the field is one of a pod's spec.
func (l *leaf) inPod() bool {
	return strings.Contains(l.path, ".extraPodSpec.") || strings.Contains(l.path, ".podTemplate.spec.")
}

// seeded is a source that gives the same again by the seed of Ginkgo, or by one that is set.
func seeded() *rand.Rand {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(seedVariable), strconv.FormatInt(GinkgoRandomSeed(), 10)), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s: want a number", seedVariable, os.Getenv(seedVariable)))
	}
	return rand.New(rand.NewPCG(seed, 0))
}

// some of the values: the valid one and others.
func some(random *rand.Rand, all []raw, n int) []raw {
	random.Shuffle(len(all)-1, func(i, j int) { all[i+1], all[j+1] = all[j+1], all[i+1] })
	return all[:min(n, len(all))]
}

// sample some fields and some of their values. Each kind has its share.
func sample(all []*leaf, random *rand.Rand) []trial {
	byKind := map[string][]*leaf{}
	for _, l := range all {
		byKind[l.kind.String()] = append(byKind[l.kind.String()], l)
	}
	var out []trial
	for _, k := range kinds() {
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

var names int

// uniqueName is a name that no other spec has.
func uniqueName() string {
	names++
	return fmt.Sprintf("g%d-%d", GinkgoParallelProcess(), names)
}

// attempt is the trial of one leaf, and what it showed.
type attempt struct {
	trial
	counts
	name   string
	faults []fault
}

// counts of values and requests.
type counts struct {
	Tried, Accepted, Barred int
	Requests                int64
}

// fault is what a value showed.
type fault struct {
	*leaf
	value   raw
	problem string
}

func (t *attempt) run(ctx context.Context) {
	o := &object{attempt: t, leaf: t.leaf, name: t.name}
	if !o.begin(ctx) {
		return
	}
	for _, value := range t.values {
		t.Tried++
		o.set(ctx, value)
	}
	o.unset(ctx)
	o.unsetByOther(ctx)
	if a := t.kind.remove(ctx, o.name); !a.ok() {
		t.found(t.leaf, nil, "deleting: %d %s", a.code, a.body)
	}
}

func (t *attempt) found(l *leaf, value raw, format string, args ...any) {
	f := fault{l, value, fmt.Sprintf(format, args...)}
	t.faults = append(t.faults, f)
	GinkgoWriter.Printf("%s = %s: %s\n", l, short(json.RawMessage(quotedIfOdd(value))), f.problem)
}

// report is each fault in a line. Their inputs are kept.
func (t *attempt) report() string {
	slices.SortFunc(t.faults, func(a, b fault) int { return strings.Compare(string(a.value), string(b.value)) })
	var lines []string
	for _, f := range t.faults {
		kept := ""
		if f.value != nil {
			kept = keep(f)
		}
		lines = append(lines, fmt.Sprintf("%s = %s: %.500s%s", f.leaf, short(json.RawMessage(quotedIfOdd(f.value))), f.problem, kept))
	}
	return strings.Join(lines, "\n")
}

func quotedIfOdd(value raw) []byte {
	if json.Valid(value) {
		return value
	}
	return []byte("null")
}

// counted is the name of the report entries with counts.
const counted = "counts"

var _ = ReportAfterSuite("what was tried", func(report Report) {
	tried, sum := 0, counts{}
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if entry.Name != counted {
				continue
			}
			one, own := entry.GetRawValue().(counts)
			if !own { // it is another process's
				Expect(json.Unmarshal([]byte(entry.Value.AsJSON), &one)).To(Succeed())
			}
			tried++
			sum = counts{sum.Tried + one.Tried, sum.Accepted + one.Accepted, sum.Barred + one.Barred, sum.Requests + one.Requests}
		}
	}
	out := io.Writer(GinkgoWriter)
	if os.Getenv(fieldsVariable) != "" {
		out = os.Stdout
	}
	fmt.Fprintf(out, "%d trials of %d fields: %d values, %d of them accepted, %d only on a new object; %d requests in %v\n",
		tried, len(fields()), sum.Tried, sum.Accepted, sum.Barred, sum.Requests, report.RunTime)
})
