// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// world is a deployment of 2 prefill and 4 decode in the middle of an update, with what is stored of both generations.
type world struct {
	Observed
	revisions   []appsv1.ControllerRevision
	former      []trellisv1alpha1.ScalingGroup
	first, next string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace, dgd.Generation, dgd.Status.ObservedGeneration = "llm", "team-a", 2, 2
	for name, n := range map[string]int32{"prefill": 2, "decode": 4} {
		c := nvidiav1beta1.ComponentSpec{Name: name, Type: nvidiav1beta1.ComponentType(name), Replicas: ptr.To(n)}
		c.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "runtime:1.5.0"}}}}
		dgd.Spec.Components = append(dgd.Spec.Components, c)
	}
	w := &world{Observed: Observed{Graph: dgd}}
	w.first = w.resolve(t)
	w.former = w.Groups
	dgd.Annotations = map[string]string{render.AnnotationWorkerHash: w.first}
	dgd.Component("decode").PodTemplate.Spec.Containers[0].Image = "runtime:1.6.0"
	w.next = w.resolve(t)
	for i := range w.Groups {
		status := &w.Groups[i].Status
		n := w.Groups[i].Spec.Replicas / 2
		status.Replicas, status.OutdatedReplicas, status.UpdatedAvailableReplicas = 2*n, n, n-1
		status.Generations = []trellisv1alpha1.GenerationCount{{Name: w.first, Replicas: n, AvailableReplicas: n}}
	}
	w.says(nvidiav1beta1.ReasonRollingOut, "decode: 1 of 4 replicas serve the current revision, 3 serve in all; waits for replica 3 to become ready")
	return w
}

// resolve the deployment, with its groups and what is stored of the generation.
func (w *world) resolve(t *testing.T) string {
	t.Helper()
	g, err := render.Resolve(w.Graph, render.Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	w.Groups = nil
	for _, sg := range g.ScalingGroups() {
		w.Groups = append(w.Groups, *sg)
	}
	stored, _ := g.Stored()
	number := int64(len(w.revisions) + 1)
	revision, err := stored.ControllerRevision(w.Graph, number)
	if err != nil {
		t.Fatal(err)
	}
	revision.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(number) * time.Hour))
	w.revisions = append(w.revisions, *revision)
	return g.Generation
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func (w *world) says(reason, message string) {
	w.Graph.Status.Conditions = []metav1.Condition{{Type: nvidiav1beta1.ConditionRolledOut, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

func (w *world) annotate(key, value string) { w.Graph.Annotations[key] = value }

// TestReports renders both reports of an update.
func TestReports(t *testing.T) {
	cases := map[string]func(*world){
		"updating": func(*world) {},
		"paused": func(w *world) {
			w.annotate(rollout.AnnotationPaused, "true")
			w.says(nvidiav1beta1.ReasonRolloutPaused, "the update is paused")
		},
		"rolled-back": func(w *world) {
			w.annotate(rollout.AnnotationAborted, w.next)
			w.says(nvidiav1beta1.ReasonRolledBack, "generation "+w.next+" was aborted")
			for i := range w.Groups {
				w.Groups[i].Spec = w.former[i].Spec
				w.Groups[i].Status.Generations[0].Name = w.next
			}
		},
		"complete": func(w *world) {
			w.Graph.Status.Conditions = nil
			w.annotate(render.AnnotationWorkerHash, w.next)
			for i := range w.Groups {
				n := w.Groups[i].Spec.Replicas
				w.Groups[i].Status = trellisv1alpha1.ScalingGroupStatus{Replicas: n, UpdatedAvailableReplicas: n}
			}
		},
		"without-generations": func(w *world) {
			w.Graph.Status.Conditions, w.Graph.Annotations, w.Groups, w.revisions = nil, nil, nil, nil
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			status := Build(w.Observed)
			out, err := json.MarshalIndent(status, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			history := Generations(w.Observed, w.revisions, noon.Add(26*time.Hour))
			golden.Check(t, filepath.Join("testdata", name+".golden"), status.Text(text.Page{})+"\n"+history.Text(text.Page{})+"\n"+string(out)+"\n")
		})
	}
}

// TestWhatIsAborted: the generation that the workers change to, and nothing while there is none.
func TestWhatIsAborted(t *testing.T) {
	w := newWorld(t)
	if got, err := toAbort(w.Observed); err != nil || got != w.next {
		t.Errorf("in the update: %q, %v; want %s", got, err, w.next)
	}
	for want, change := range map[string]func(*world){
		"was aborted already": func(w *world) {
			w.annotate(rollout.AnnotationAborted, w.next)
			w.says(nvidiav1beta1.ReasonRolledBack, "")
		},
		"no update of the workers is in progress": func(w *world) {
			w.annotate(render.AnnotationWorkerHash, w.next)
			w.Graph.Status.Conditions = nil
		},
		"has not taken up the last change yet": func(w *world) {
			w.annotate(render.AnnotationWorkerHash, w.next)
			w.Graph.Generation++
		},
	} {
		w := newWorld(t)
		change(w)
		if got, err := toAbort(w.Observed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v; want %s", got, err, want)
		}
	}
}

// TestWhatIsUndone: during an update what is aborted, after it the generation that was rolled out, as long as another one is stored.
func TestWhatIsUndone(t *testing.T) {
	rolledOut := func(w *world) {
		w.annotate(render.AnnotationWorkerHash, w.next)
		w.Graph.Status.Conditions = nil
	}
	for name, tc := range map[string]struct {
		change      func(*world)
		errContains string
	}{
		"in the update": {func(*world) {}, ""},
		"after it":      {rolledOut, ""},
		"undone already": {func(w *world) {
			rolledOut(w)
			w.annotate(rollout.AnnotationAborted, w.next)
			w.says(nvidiav1beta1.ReasonRolledBack, "")
		}, "was aborted already"},
		"the first one": {func(w *world) {
			rolledOut(w)
			w.revisions = w.revisions[1:]
		}, "of the workers of llm is stored: apply the manifest of the version to return to"},
		"a change that is not taken up": {func(w *world) {
			rolledOut(w)
			w.Graph.Generation++
		}, "has not taken up the last change yet"},
		"without generations": {func(w *world) {
			w.Graph.Status.Conditions, w.Graph.Annotations, w.Groups, w.revisions = nil, nil, nil, nil
		}, "no update of the workers is in progress"},
	} {
		w := newWorld(t)
		tc.change(w)
		got, err := toUndo(w.Observed, w.revisions)
		switch {
		case tc.errContains == "" && (err != nil || got != w.next):
			t.Errorf("%s: %q, %v; want %s", name, got, err, w.next)
		case tc.errContains != "" && (err == nil || !strings.Contains(err.Error(), tc.errContains)):
			t.Errorf("%s: %q, %v; want %s", name, got, err, tc.errContains)
		}
	}
	w := newWorld(t)
	rolledOut(w)
	if _, err := toAbort(w.Observed); err == nil || !strings.Contains(err.Error(), "kubectl trellis rollout undo dgd/llm -n team-a") {
		t.Errorf("abort after the update does not name undo: %v", err)
	}
}
