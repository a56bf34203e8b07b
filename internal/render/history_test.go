// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

var theWorkers = []string{"prefill", "decode"}

// aborted resolves a deployment of which a generation is aborted, and returns the groups as they are written.
func aborted(t *testing.T, image string, groups map[string]*trellisv1alpha1.ScalingGroup, back *Rollback) (map[string]*trellisv1alpha1.ScalingGroup, *Graph) {
	t.Helper()
	dgd := disaggregated()
	setImage(dgd, "decode", image)
	g, err := Resolve(dgd, Inputs{Provider: specs.Gates.Name, Groups: groups, Rollback: back})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*trellisv1alpha1.ScalingGroup{}
	for _, sg := range g.ScalingGroups() {
		out[sg.Spec.Component] = sg
	}
	return out, g
}

// storedOf stores the generation of groups, and reads it again.
func storedOf(t *testing.T, groups map[string]*trellisv1alpha1.ScalingGroup) *StoredGeneration {
	t.Helper()
	generation, one := GenerationIn(groups, theWorkers)
	if !one {
		t.Fatalf("the groups are of the generations %v", generationsOf(groups))
	}
	revision, err := generation.ControllerRevision(disaggregated(), 1)
	if err != nil {
		t.Fatal(err)
	}
	out, err := StoredIn(revision)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRollback: while a generation is aborted, the workers are those of the stored one, and follow the deployment again with the next change, or when it is
// aborted no longer.
func TestRollback(t *testing.T) {
	for from, groups := range map[string]map[string]*trellisv1alpha1.ScalingGroup{
		"a generation": stored(t, disaggregated(), nil), "none": unsuffixed(t, disaggregated()),
	} {
		t.Run("from "+from, func(t *testing.T) {
			back := &Rollback{To: []*StoredGeneration{storedOf(t, groups)}}
			updated, g := aborted(t, "runtime:1.6.0", groups, back)
			if g.RolledBack || updated["decode"].Spec.Revision == groups["decode"].Spec.Revision {
				t.Fatal("it is rolled back before the generation is aborted")
			}
			back.Aborted = g.Generation
			returned := updated
			for _, turn := range []string{"aborted", "aborted still"} { // what is written is the same the next time
				returned, g = aborted(t, "runtime:1.6.0", returned, back)
				if diff := cmp.Diff(specsOf(groups), specsOf(returned)); diff != "" || !g.RolledBack || g.Generation != back.Aborted {
					t.Fatalf("%s: rolled back %v, asked for %s; what is written (-before +now):\n%s", turn, g.RolledBack, g.Generation, diff)
				}
			}
			again, g := aborted(t, "runtime:1.6.0", returned, nil)
			if diff := cmp.Diff(specsOf(updated), specsOf(again)); diff != "" || g.RolledBack {
				t.Errorf("aborted no longer: rolled back %v (-want +got):\n%s", g.RolledBack, diff)
			}
			next, g := aborted(t, "runtime:1.7.0", returned, back)
			if g.RolledBack || GenerationOf(next["decode"]) != g.Generation || g.Generation == back.Aborted {
				t.Errorf("changed again: rolled back %v, generation %s", g.RolledBack, GenerationOf(next["decode"]))
			}
		})
	}
}

// TestRollbackToOtherForms: a generation that was stored without an input, or with one of another form, is returned to as any other. What is returned to is
// not taken for what the deployment asks for.
func TestRollbackToOtherForms(t *testing.T) {
	for name, input := range map[string]*trellisv1alpha1.TemplateInput{"none": nil, "older": {Form: inputForm - 1, Hash: "x"}} {
		t.Run(name, func(t *testing.T) {
			groups := stored(t, disaggregated(), nil)
			before := stored(t, disaggregated(), nil)
			for _, sg := range before {
				sg.Spec.Input = input
			}
			updated, g := aborted(t, "runtime:1.6.0", groups, nil)
			back := &Rollback{Aborted: g.Generation, To: []*StoredGeneration{storedOf(t, before)}}
			returned := updated
			for _, turn := range []string{"aborted", "aborted still"} {
				returned, g = aborted(t, "runtime:1.6.0", returned, back)
				if diff := cmp.Diff(revisionsOf(groups), revisionsOf(returned)); diff != "" || !g.RolledBack || g.Generation != back.Aborted {
					t.Fatalf("%s: rolled back %v, asked for %s; revisions (-before +now):\n%s", turn, g.RolledBack, g.Generation, diff)
				}
			}
			again, g := aborted(t, "runtime:1.6.0", returned, nil)
			if diff := cmp.Diff(specsOf(updated), specsOf(again)); diff != "" || g.RolledBack {
				t.Errorf("aborted no longer: rolled back %v (-want +got):\n%s", g.RolledBack, diff)
			}
			former, g := aborted(t, "runtime:1.5.0", returned, back)
			if diff := cmp.Diff(specsOf(groups), specsOf(former)); diff != "" || g.RolledBack {
				t.Errorf("changed to the former specification: rolled back %v (-want +got):\n%s", g.RolledBack, diff)
			}
		})
	}
}

// TestAbortOutlastsAnUpgrade: another release, or one that is started with other addresses, gives the aborted generation another hash. The workers do not
// change for that.
func TestAbortOutlastsAnUpgrade(t *testing.T) {
	groups := stored(t, disaggregated(), nil)
	_, g := aborted(t, "runtime:1.6.0", groups, nil)
	of := g.WorkersInput
	older := "1-" + strings.TrimPrefix(of, "2-")
	cases := map[string]struct {
		back     Rollback
		image    string
		platform Platform
		want     bool
	}{
		"another release":                    {back: Rollback{Input: of}, want: true},
		"other addresses":                    {back: Rollback{Input: of}, platform: Platform{NATS: "nats://other"}, want: true},
		"a worker is changed":                {back: Rollback{Input: of}, image: "runtime:1.7.0"},
		"a worker is changed, in force":      {back: Rollback{Input: of, InForce: true}, image: "runtime:1.7.0"},
		"the input is not known":             {back: Rollback{InForce: true}},
		"another form":                       {back: Rollback{Input: older, InForce: true}, want: true},
		"another form, and it had no effect": {back: Rollback{Input: older}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := disaggregated()
			setImage(dgd, "decode", "runtime:1.6.0")
			if c.image != "" {
				setImage(dgd, "decode", c.image)
			}
			c.back.Aborted, c.back.To = "0badc0de", []*StoredGeneration{storedOf(t, groups)}
			now, err := Resolve(dgd, Inputs{Provider: specs.Gates.Name, Groups: groups, Rollback: &c.back, Platform: c.platform})
			if err != nil {
				t.Fatal(err)
			}
			if got := now.Generation == "0badc0de"; got != c.want || now.RolledBack != c.want {
				t.Errorf("asked for %s, rolled back %v; want %v", now.Generation, now.RolledBack, c.want)
			}
			if kept := now.Components[0].Revision == groups["decode"].Spec.Revision; kept != c.want {
				t.Errorf("the workers stay: %v", kept)
			}
		})
	}
}

func specsOf(groups map[string]*trellisv1alpha1.ScalingGroup) map[string]trellisv1alpha1.ScalingGroupSpec {
	out := map[string]trellisv1alpha1.ScalingGroupSpec{}
	for name, sg := range groups {
		out[name] = sg.Spec
	}
	return out
}

// TestNoRollback: what does not have all workers, or nothing at all, is nowhere to return to.
func TestNoRollback(t *testing.T) {
	groups := stored(t, disaggregated(), nil)
	updated, g := aborted(t, "runtime:1.6.0", groups, nil)
	part := storedOf(t, groups)
	delete(part.Workers, "prefill")
	for name, back := range map[string]*Rollback{"nothing is stored": {Aborted: g.Generation}, "prefill is not stored": {Aborted: g.Generation, To: []*StoredGeneration{part}}} {
		now, g := aborted(t, "runtime:1.6.0", updated, back)
		if diff := cmp.Diff(specsOf(updated), specsOf(now)); diff != "" || g.RolledBack {
			t.Errorf("%s: rolled back %v (-before +now):\n%s", name, g.RolledBack, diff)
		}
	}
}

// TestRollbackToTheSameWorkers: a generation of other workers is left out, also the preferred one.
func TestRollbackToTheSameWorkers(t *testing.T) {
	groups := stored(t, disaggregated(), nil)
	updated, g := aborted(t, "runtime:1.6.0", groups, nil)
	fewer, more := storedOf(t, groups), storedOf(t, groups)
	delete(fewer.Workers, "prefill")
	more.Workers["encode"] = more.Workers["decode"]
	returned, g := aborted(t, "runtime:1.6.0", updated, &Rollback{Aborted: g.Generation, To: []*StoredGeneration{fewer, more, storedOf(t, groups)}})
	if diff := cmp.Diff(specsOf(groups), specsOf(returned)); diff != "" || !g.RolledBack {
		t.Errorf("rolled back %v (-before +now):\n%s", g.RolledBack, diff)
	}
}

// TestGenerationIn: groups of two generations are none, and none is stored that is too large.
func TestGenerationIn(t *testing.T) {
	groups := stored(t, disaggregated(), nil)
	updated, _ := aborted(t, "runtime:1.6.0", groups, nil)
	if _, one := GenerationIn(map[string]*trellisv1alpha1.ScalingGroup{"prefill": groups["prefill"], "decode": updated["decode"]}, theWorkers); one {
		t.Error("two generations are taken for one")
	}
	if _, one := GenerationIn(map[string]*trellisv1alpha1.ScalingGroup{"prefill": groups["prefill"]}, theWorkers); one {
		t.Error("a generation without decode is taken for one")
	}
	large := stored(t, disaggregated(), nil)
	large["decode"].Spec.Roles[0].Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: strings.Repeat("x", MaxStoredGeneration)}, {Name: envWorkerSuffix, Value: GenerationOf(groups["decode"])}}
	generation, _ := GenerationIn(large, theWorkers)
	if _, err := generation.ControllerRevision(disaggregated(), 1); err == nil {
		t.Error("a generation of more than 1 MiB is stored")
	}
}

// The API server refuses a patch of a ControllerRevision whose data has its keys in another order than sorted.
func TestStoredGenerationIsSorted(t *testing.T) {
	groups, _ := aborted(t, "runtime:1", nil, nil)
	generation, _ := GenerationIn(groups, theWorkers)
	revision, err := generation.ControllerRevision(disaggregated(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(revision.Data.Raw, &tree); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(sorted), string(revision.Data.Raw)); diff != "" {
		t.Errorf("keys are not sorted (-sorted +stored):\n%s", diff)
	}
}
