// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// observed reads a graph, all of it, and pods written short: "service ordinal index state".
func observed(t *testing.T, text string, pods ...string) Observed {
	t.Helper()
	written := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := yaml.UnmarshalStrict([]byte(text), written); err != nil {
		t.Fatal(err)
	}
	s := Observed{Graph: hub.Of(written)}
	for _, short := range pods {
		f := strings.SplitN(short, " ", 4)
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:   "llm-" + strings.ToLower(f[0]) + "-" + f[1] + "-" + f[2],
			Labels: map[string]string{render.LabelComponent: f[0], render.LabelReplica: f[1], render.LabelPodIndex: f[2]},
		}, Spec: corev1.PodSpec{NodeName: "n"}}
		switch state := f[3]; state {
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		case "gated":
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		case "unadmitted":
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: render.PlacementGate}, {Name: "example.com/quota"}}
		case "leaving":
			p.DeletionTimestamp = ptr.To(metav1.Now())
		case "starting":
		case "unscheduled":
			p.Spec.NodeName = ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes are available"}}
		default:
			t.Fatalf("a pod of an unknown state: %s", short)
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

// group is a ScalingGroup of a component with the condition PodsHealthy as given.
func group(component string, healthy metav1.ConditionStatus, reason, message string) trellisv1alpha1.ScalingGroup {
	return trellisv1alpha1.ScalingGroup{
		Spec: trellisv1alpha1.ScalingGroupSpec{Component: component},
		Status: trellisv1alpha1.ScalingGroupStatus{Conditions: []metav1.Condition{
			{Type: trellisv1alpha1.ConditionPodsInSync, Status: metav1.ConditionFalse, Reason: "r", Message: "of the deployment's conditions"},
			{Type: trellisv1alpha1.ConditionPodsHealthy, Status: healthy, Reason: reason, Message: message},
		}},
	}
}

// notStarting is the group of Decode with an image that does not exist.
func notStarting() trellisv1alpha1.ScalingGroup {
	return group("Decode", metav1.ConditionFalse, trellisv1alpha1.ReasonPodsNotStarting,
		`pod llm-decode-1-1: container main: ImagePullBackOff: image "llm:2" cannot be pulled: not found`)
}

// llm has Decode (multinode, three replicas) and Frontend; status is the rest of the object.
func llm(status string) string {
	return `
metadata: {name: llm, namespace: team-a, generation: 4}
spec:
  services:
    Decode: {replicas: 3, multinode: {nodeCount: 2}}
    Frontend: {}
` + status
}

const (
	isReady    = `{type: Ready, status: "True", reason: all_resources_are_ready, message: All resources are ready, lastTransitionTime: null}`
	frontendUp = `Frontend: {componentKind: ScalingGroup, componentName: llm-frontend, replicas: 1, updatedReplicas: 1, readyReplicas: 1, scheduledReplicas: 1, placements: [{replica: 0, domain: zone-a}]}`
	allReady   = `
status:
  observedGeneration: 4
  state: successful
  conditions: [` + isReady + `]
  placement: {domain: zone-a}
  services:
    Decode:
      {componentKind: ScalingGroup, componentName: llm-decode, replicas: 3, updatedReplicas: 3, readyReplicas: 3, scheduledReplicas: 3,
       placements: [{replica: 0, domain: zone-a/rack-1}, {replica: 1, domain: zone-a/rack-1}, {replica: 2, domain: zone-a/rack-2}]}
    ` + frontendUp
)

var allPods = []string{"Decode 0 0 ready", "Decode 0 1 ready", "Decode 1 0 ready", "Decode 1 1 ready", "Decode 2 0 ready", "Decode 2 1 ready", "Frontend 0 0 ready"}

func scenarios(t *testing.T) map[string]Observed {
	changed := func(s Observed, change func(*Observed)) Observed {
		change(&s)
		return s
	}
	return map[string]Observed{
		"ready":         observed(t, llm(allReady), allPods...),
		"not-looked-at": observed(t, llm("")),
		"ownership-conflict": observed(t, llm(strings.Replace(allReady, "conditions: [",
			`conditions: [{type: OwnershipConflict, status: "True", reason: OwnershipConflict, message: another operator writes it, lastTransitionTime: null}, `, 1)), allPods...),
		"edited": changed(observed(t, llm(allReady), allPods...), func(s *Observed) { s.Graph.Generation = 5 }),
		"restarting": changed(observed(t, llm(allReady), allPods...), func(s *Observed) {
			s.Graph.Status.Restart = &nvidiav1beta1.RestartStatus{ObservedID: "monday", Phase: "Restarting", InProgress: []string{"Decode"}}
		}),
		"being-deleted": changed(observed(t, llm(allReady), allPods...), func(s *Observed) { s.Graph.DeletionTimestamp = ptr.To(metav1.Now()) }),
		"starting": changed(observed(t, llm(`
status:
  observedGeneration: 4
  state: pending
  conditions: [{type: Ready, status: "False", reason: pods_not_ready, message: m, lastTransitionTime: null}]
  placement: {domain: zone-a}
  services:
    Decode: {componentKind: ScalingGroup, componentName: llm-decode, replicas: 3, updatedReplicas: 3, readyReplicas: 1, scheduledReplicas: 3, placements: [{replica: 0, domain: zone-a/rack-1}, {replica: 1, domain: zone-a/rack-1}, {replica: 2, domain: zone-a/rack-2}]}
    `+frontendUp),
			"Decode 0 0 ready", "Decode 0 1 ready", "Decode 1 0 ready", "Decode 1 1 starting", "Decode 2 0 ready", "Decode 2 1 starting", "Frontend 0 0 ready"), func(s *Observed) {
			s.Groups = []trellisv1alpha1.ScalingGroup{notStarting(), group("Frontend", metav1.ConditionTrue, "Healthy", "m")}
		}),
		"no-capacity": observed(t, llm(`
status:
  observedGeneration: 4
  state: pending
  conditions:
  - {type: Placed, status: "False", reason: InsufficientCapacity, message: "2 of 3 packed replicas are placed. Decode-2: needs 2 pods with nvidia.com/gpu 8 in one rack; closest is zone-a/rack-1, which holds 1 of 2", lastTransitionTime: null}
  - {type: Ready, status: "False", reason: insufficient_capacity, message: m, lastTransitionTime: null}
  services:
    Decode: {componentKind: ScalingGroup, componentName: llm-decode, replicas: 3, updatedReplicas: 3, readyReplicas: 2, scheduledReplicas: 2, placements: [{replica: 0, domain: zone-a/rack-1}, {replica: 1, domain: zone-b/rack-1}]}
    `+frontendUp),
			append([]string{"Decode 2 0 gated", "Decode 2 1 gated", "Frontend 0 0 ready"}, allPods[:4]...)...),
		"rolling-update": observed(t, llm(`
status:
  observedGeneration: 4
  state: pending
  conditions: [{type: Ready, status: "False", reason: rolling_update_in_progress, message: m, lastTransitionTime: null}]
  rollingUpdate: {phase: InProgress, updatedServices: [Frontend]}
  services:
    Decode: {componentKind: ScalingGroup, componentName: llm-decode, replicas: 2, updatedReplicas: 0, readyReplicas: 2, scheduledReplicas: 2}
    `+frontendUp),
			"Decode 0 0 ready", "Decode 0 1 ready", "Decode 1 0 ready", "Decode 1 1 ready", "Decode 2 0 leaving", "Decode 2 1 leaving", "Frontend 0 0 ready"),
		"unadmitted": observed(t, llm(`
status:
  observedGeneration: 4
  state: pending
  conditions:
  - {type: Placed, status: "False", reason: WaitingForAdmission, message: "1 of 2 packed replicas are placed. Decode-1: waits for admission: another controller has to remove the scheduling gate \"example.com/quota\" from pod llm-decode-1-0", lastTransitionTime: null}
  - {type: Ready, status: "False", reason: some_resources_are_not_ready, message: m, lastTransitionTime: null}
  services:
    Decode: {componentKind: ScalingGroup, componentName: llm-decode, replicas: 3, updatedReplicas: 3, readyReplicas: 1, scheduledReplicas: 1, placements: [{replica: 0, domain: zone-a/rack-1}]}
    `+frontendUp),
			"Decode 0 0 ready", "Decode 0 1 ready", "Decode 1 0 unadmitted", "Decode 1 1 gated", "Decode 2 0 gated", "Decode 2 1 gated", "Frontend 0 0 ready"),
		"moving": observed(t, llm(strings.NewReplacer(
			"conditions: [", `conditions: [{type: Moved, status: "False", reason: Moving, message: "moving Decode-1: its successor Decode-3 waits for Ready, 1 of 2 pods (node n is drained)", lastTransitionTime: null}, `,
			"replicas: 3, updatedReplicas: 3", "replicas: 4, updatedReplicas: 4", "scheduledReplicas: 3", "scheduledReplicas: 4").Replace(allReady)),
			append([]string{"Decode 3 0 ready", "Decode 3 1 starting"}, allPods...)...),
		"pod-gone":       observed(t, llm(allReady), slices.DeleteFunc(slices.Clone(allPods), func(p string) bool { return p == "Decode 1 1 ready" })...),
		"replica-gone":   observed(t, llm(allReady), allPods[2:]...),
		"pods-not-ready": observed(t, llm(allReady), append([]string{"Decode 0 0 starting"}, allPods[1:]...)...),
		"unscheduled": observed(t, llm(`
status:
  observedGeneration: 4
  state: pending
  conditions: [{type: Ready, status: "False", reason: some_resources_are_not_ready, message: m, lastTransitionTime: null}]
  services:
    Decode: {componentKind: ScalingGroup, componentName: llm-decode, replicas: 1, updatedReplicas: 1}
    `+frontendUp), "Decode 0 0 unscheduled", "Decode 0 1 starting", "Frontend 0 0 ready"),
		"failed": observed(t, llm(`
status:
  observedGeneration: 3
  state: failed
  conditions: [{type: Ready, status: "False", reason: failed_to_reconcile_the_resources, message: "applying Service llm-frontend: forbidden", lastTransitionTime: null}]
`)),
		"groups-hidden": changed(observed(t, llm(allReady), append([]string{"Decode 0 0 starting"}, allPods[1:]...)...), func(s *Observed) {
			s.GroupsHidden = true
		}),
		"pods-hidden": changed(observed(t, llm(strings.Replace(allReady, "readyReplicas: 3", "readyReplicas: 1", 1))), func(s *Observed) { s.PodsHidden = true }),
	}
}

func TestText(t *testing.T) {
	for name, s := range scenarios(t) {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, filepath.Join("testdata", name+".golden"), Build(s).Text(text.Page{}))
		})
	}
}

func TestDone(t *testing.T) {
	for name, s := range scenarios(t) {
		if got := Build(s).Done; got != (name == "ready" || name == "ownership-conflict") {
			t.Errorf("%s: done = %v", name, got)
		}
	}
	surplus := observed(t, llm(strings.Replace(allReady, "replicas: 3, updatedReplicas: 3, readyReplicas: 3", "replicas: 4, updatedReplicas: 3, readyReplicas: 3", 1)), append([]string{"Decode 3 0 ready", "Decode 3 1 ready"}, allPods...)...)
	if Build(surplus).Done {
		t.Error("done though a surplus replica is there")
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(Build(scenarios(t)["no-capacity"])); err != nil {
		t.Fatal(err)
	}
	const want = `{"namespace":"team-a","name":"llm","done":false,"ready":false,"state":"pending","reason":"insufficient_capacity","message":"m","services":[` +
		`{"name":"Decode","desired":3,"replicas":3,"updated":3,"scheduled":2,"ready":2,"where":[{"domain":"zone-a/rack-1","replicas":1},{"domain":"zone-b/rack-1","replicas":1}],"waiting":["a place for 1 replica"]},` +
		`{"name":"Frontend","desired":1,"replicas":1,"updated":1,"scheduled":1,"ready":1,"where":[{"domain":"zone-a","replicas":1}]}],` +
		`"conditions":[{"type":"Placed","status":"False","reason":"InsufficientCapacity","message":"2 of 3 packed replicas are placed. Decode-2: needs 2 pods with nvidia.com/gpu 8 in one rack; closest is zone-a/rack-1, which holds 1 of 2"}]}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// follow feeds observations to Follow and returns what a pipe would get.
func follow(ctx context.Context, forever bool, observations ...Observed) (string, error) {
	news := make(chan Observed)
	go func() {
		defer close(news)
		for _, s := range observations {
			select {
			case news <- s:
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() == nil && ctx.Value(stay{}) != nil {
			<-ctx.Done()
		}
	}()
	var out bytes.Buffer
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	err := Follow(ctx, news, func(r Status, before *Status) error { return log(&out, r, before, noon) }, forever)
	return out.String(), err
}

// stay, in a context, keeps the graph there when the last observed was taken.
type stay struct{}

func TestFollow(t *testing.T) {
	s := scenarios(t)

	t.Run("a line a change, and the end when ready", func(t *testing.T) {
		got, err := follow(t.Context(), false, s["starting"], s["starting"], s["ready"], s["no-capacity"])
		if err != nil {
			t.Fatal(err)
		}
		const want = `12:00:00 Decode: 1/3 ready, 3 updated, in zone-a/rack-1 (2), zone-a/rack-2; waiting: 2 replicas to start
12:00:00 Frontend: 1/1 ready, 1 updated, in zone-a
12:00:00 PodsHealthy of Decode is False, PodsNotStarting: pod llm-decode-1-1: container main: ImagePullBackOff: image "llm:2" cannot be pulled: not found
12:00:00 llm in team-a is not ready (pods_not_ready), placed in zone-a
12:00:00 Decode: 3/3 ready, 3 updated, in zone-a/rack-1 (2), zone-a/rack-2
12:00:00 llm in team-a is ready, placed in zone-a
`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("forever goes on until the graph is deleted", func(t *testing.T) {
		got, err := follow(t.Context(), true, s["ready"], s["starting"])
		if err == nil || err.Error() != "the DynamoGraphDeployment was deleted" || !strings.HasSuffix(got, "is not ready (pods_not_ready), placed in zone-a\n") {
			t.Errorf("%v after\n%s", err, got)
		}
	})
	t.Run("a timeout says how far it came", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), stay{}, true), time.Minute)
			defer cancel()
			_, err := follow(ctx, false, s["starting"])
			if err == nil || err.Error() != "timed out: llm in team-a is not ready (pods_not_ready), placed in zone-a" {
				t.Error(err)
			}
		})
	})
	t.Run("an interruption is no success", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := follow(ctx, false); err == nil {
			t.Error("no error")
		}
	})
	t.Run("nobody reads any more", func(t *testing.T) {
		news := make(chan Observed, 1)
		news <- s["starting"]
		broken := errors.New("broken pipe")
		if err := Follow(t.Context(), news, func(Status, *Status) error { return broken }, false); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

// TestWidths: on a terminal no line is longer than the terminal is wide.
func TestWidths(t *testing.T) {
	for name, s := range scenarios(t) {
		for i := range 12 { // many domains
			c := s.Graph.Status.Components["Decode"]
			c.Placements = append(c.Placements, nvidiav1beta1.ReplicaPlacement{Replica: int32(10 + i), Domain: fmt.Sprintf("europe-west4-a/block-%d/rack-%d", i%3, i)})
			if s.Graph.Status.Components != nil {
				s.Graph.Status.Components["Decode"] = c
			}
		}
		for _, columns := range []int{80, 100, 160} {
			for line := range strings.Lines(Build(s).Text(text.Page{Columns: columns, Color: true})) {
				if width := text.Width(strings.TrimSuffix(line, "\n")); width > columns {
					t.Errorf("%s at %d columns: %d: %s", name, columns, width, line)
				}
			}
		}
	}
}

// On a terminal each table covers the one before, whose lines may have been broken by a narrow window.
func TestRedraw(t *testing.T) {
	s := scenarios(t)
	starting, ready := Build(s["starting"]), Build(s["ready"])
	var out bytes.Buffer
	for _, step := range []struct {
		r      Status
		before *Status
		width  int
	}{{starting, nil, 200}, {ready, &starting, 200}, {ready, &starting, 80}} {
		if err := redraw(&out, step.r, step.before, text.Page{Columns: step.width}); err != nil {
			t.Fatal(err)
		}
	}
	broad := text.Page{Columns: 200}
	want := starting.Text(broad) + "\x1b[7A\x1b[J" + ready.Text(broad) + "\x1b[8A\x1b[J" + ready.Text(text.Page{Columns: 80})
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
