// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// active are the Workloads that may have quota.
func (w *world) active() []string {
	var out []string
	for _, one := range w.workloads {
		if one.active() {
			out = append(out, short(one.Name))
		}
	}
	return out
}

// applied does what a merge patch does to a Workload.
func (w *world) applied(one *Workload, change map[string]any) {
	w.t.Helper()
	patch, err := PatchOf(one, change)
	if err != nil {
		w.t.Fatal(err)
	}
	before := maps.Clone(one.Annotations)
	if err := json.Unmarshal(patch, one); err != nil {
		w.t.Fatal(err)
	}
	if one.Annotations[annotationFollows] == "" {
		one.Annotations = before
		delete(one.Annotations, annotationFollows)
	}
}

// Quota goes to the first replicas first, also when others were faster.
func TestFirstReplicasFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"nothing has quota":   {func(*world) {}, []string{"g-base"}},
		"another was faster":  {func(w *world) { set(w.workloads[1], workloadReserved, metav1.ConditionTrue, "") }, []string{"g-base"}},
		"the first ones have": {func(w *world) { set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "") }, []string{"g-base", "g-work-1", "g-work-2"}},
		"a pod of another runs": {func(w *world) {
			w.pods[len(w.pods)-1].Spec.SchedulingGates = nil
		}, []string{"g-base", "g-work-1", "g-work-2"}},
		"no pod of the first replicas is left": {func(w *world) {
			w.gone(w.groups[0], 0)
		}, []string{"g-base", "g-work-1", "g-work-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("work", 3, 1, "8"))
			w.make(w.groups[0], 0, 1, 2)
			w.step()
			if diff := cmp.Diff([]string{"g-base"}, w.active()); diff != "" {
				t.Fatalf("at first (-want +got):\n%s", diff)
			}
			tc.change(w)
			w.step()
			if diff := cmp.Diff(tc.want, w.active()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A deployment that lost all its quota gets it back in order: what follows gives up what it has.
func TestFirstReplicasFirstOnceMore(t *testing.T) {
	w := newWorld(t, group("work", 2, 1, "8"))
	w.make(w.groups[0], 0, 1)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	set(w.workloads[1], workloadAdmitted, metav1.ConditionTrue, "")
	w.workloads[0].Status.Conditions = nil
	w.step()
	if diff := cmp.Diff([]string{"g-base"}, w.active()); diff != "" {
		t.Error(diff)
	}
	if o := w.observation(); o.Report().Reserved {
		t.Errorf("reported %+v", o.Report())
	}
}

// What another client has deactivated stays so.
func TestDeactivatedByAnother(t *testing.T) {
	w := newWorld(t, group("work", 2, 1, "8"))
	w.make(w.groups[0], 0, 1)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	w.workloads[1].Spec.Active = new(bool)
	w.step()
	if diff := cmp.Diff([]string{"g-base"}, w.active()); diff != "" {
		t.Error(diff)
	}
}

// A Workload that another client has activated while Trellis had it ask for no quota is not Trellis' to activate any more: it stays
// inactive when the client deactivates it again.
func TestActivatedByAnother(t *testing.T) {
	for name, mark := range map[string]map[string]any{"in a pause": Pause{Why: "full", Until: noon}.Patch(), "following the first replicas": HoldPatch} {
		t.Run(name, func(t *testing.T) {
			w := checked(t)
			one := w.workloads[0]
			at := func(now time.Time) Steps {
				o := w.observation()
				o.Now = now
				return Plan(o)
			}
			one.Annotations = map[string]string{}
			for key, value := range mark["metadata"].(map[string]any)["annotations"].(map[string]any) {
				one.Annotations[key] = value.(string)
			}
			s := at(noon.Add(-time.Minute))
			if len(s.Unmark) != 1 || len(s.Ask)+len(s.Resume)+len(s.Hold) > 0 {
				t.Fatalf("activated: %+v", s)
			}
			patch, err := PatchOf(one, UnmarkPatch)
			if err != nil || strings.Contains(string(patch), "spec") {
				t.Errorf("%s, %v", patch, err)
			}
			one.Annotations, one.Spec.Active = nil, ptr.To(false)
			if s := at(noon.Add(time.Minute)); len(s.Unmark)+len(s.Ask)+len(s.Resume)+len(s.Hold) > 0 {
				t.Errorf("deactivated: %+v", s)
			}
		})
	}
}
