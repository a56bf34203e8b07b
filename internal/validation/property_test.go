// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/render"
)

// filler makes random objects. Half of the short strings are words the rules know, so that the rules get past their first line.
func filler(seed int64, nils float64) *randfill.Filler {
	words := []string{"", "zone", "rack", "host", "a", "A", "a-0", "epp", "1", "0.5", "1e3", "-1", "1e99999999", "Parallel", "mp", "nvidia.com/gpu", "[", "]", "\xff", "é"}
	return randfill.NewWithSeed(seed).NilChance(nils).NumElements(0, 4).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) {
			if c.Bool() {
				*s = words[c.Intn(len(words))]
				return
			}
			*s = strings.Repeat(c.String(12), 1+c.Intn(8))
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63()-math.MaxInt64/2, resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":[1]}`) },
		func(f *nvidiav1alpha1.FreeObject, _ randfill.Continue) { f.Raw = []byte(`{"a":[1]}`) },
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.SetRawBytes([]byte("{}")) },
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
	)
}

// checkAll asks everything about a pair of random objects.
func checkAll(t *rapid.T, seed int64, nils float64) {
	fill := filler(seed, nils)
	var a, b deployment
	var ct, other clusterTopology
	var paths []string
	var users []UserOf
	for _, object := range []any{&a, &b, &ct, &other, &paths, &users} {
		fill.Fill(object)
	}
	var ignored []render.Ignored
	for _, name := range paths {
		ignored = append(ignored, render.Ignored{Path: at(name, name), Provider: name})
	}
	one, two := written(&a), written(&b)
	before := Written{DynamoGraphDeployment: one.DeepCopy(), Alpha: one.Alpha.DeepCopy()}
	Graph(one)
	GraphUpdate(one, two)
	GraphTopology(one.DynamoGraphDeployment, &ct)
	DomainsInUse(one.DynamoGraphDeployment)
	Topology(&ct)
	TopologyUpdate(&other, &ct)
	if errs := GraphUpdate(one, one); len(errs) > 0 {
		t.Fatalf("an unchanged deployment is refused: %v", errs.ToAggregate())
	}
	if errs := GraphUpdate(one, before); len(errs) > 0 {
		t.Fatalf("an equal deployment is refused, or a check changed it: %v", errs.ToAggregate())
	}
	if errs := TopologyUpdate(&ct, ct.DeepCopy()); len(errs) > 0 {
		t.Fatalf("an unchanged topology is refused: %v", errs.ToAggregate())
	}
	if errs := ratchet(Graph(one), Graph(one)); len(errs) > 0 {
		t.Fatalf("a check does not always say the same: %v", errs.ToAggregate())
	}
	if lines := TopologyWarnings(&ct, &ct, users); len(lines) > 0 {
		t.Fatalf("an unchanged topology warns: %q", lines)
	}
	for _, lines := range [][]string{Bounded(GraphWarnings(one, &ct, ignored), ""), TopologyWarnings(&other, &ct, users), TopologyWarnings(nil, &ct, users)} {
		total := 0
		for _, line := range lines {
			total += utf8.RuneCountInString(line)
		}
		if total > 4000 {
			t.Fatalf("%d runes of warnings", total)
		}
	}
}

func neverPanics(t *rapid.T) {
	checkAll(t, rapid.Int64().Draw(t, "seed"), rapid.Float64Range(0, 1).Draw(t, "nils"))
}

func TestNeverPanics(t *testing.T) { rapid.Check(t, neverPanics) }

func FuzzNeverPanics(f *testing.F) { f.Fuzz(rapid.MakeFuzz(neverPanics)) }

func TestNilSafe(t *testing.T) {
	dgd, ct := newGraph(), newTopology()
	Graph(Written{})
	GraphUpdate(Written{}, written(dgd))
	GraphUpdate(written(dgd), Written{})
	GraphTopology(nil, ct)
	GraphWarnings(Written{}, ct, nil)
	Topology(nil)
	TopologyUpdate(nil, ct)
	TopologyUpdate(ct, nil)
	TopologyWarnings(ct, nil, nil)
	DomainsInUse(nil)
	if constraint.Stated(nil) || constraint.TopologyName(nil) != "" {
		t.Error("nothing is constrained")
	}
}
