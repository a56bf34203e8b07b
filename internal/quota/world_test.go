// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// group is a scaling group of the deployment g in the queue q: each pod requests so many GPUs.
func group(component string, replicas, size int32, gpus string) *trellisv1alpha1.ScalingGroup {
	sg := gangtest.Group(component, replicas, size, gangtest.Frozen("zone", ""))
	sg.OwnerReferences = []metav1.OwnerReference{{Kind: "DynamoGraphDeployment", Name: "g", UID: "g-uid", Controller: ptr.To(true)}}
	sg.Annotations = map[string]string{render.AnnotationKueueQueue: "q"}
	for i := range sg.Spec.Roles {
		sg.Spec.Roles[i].Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"gpu": resource.MustParse(gpus)},
		}}}
	}
	return sg
}

// world is a deployment with its pods and Workloads, as the controllers change them.
type world struct {
	t         *testing.T
	dgd       *nvidiav1beta1.DynamoGraphDeployment
	groups    []*trellisv1alpha1.ScalingGroup
	pods      []*corev1.Pod
	workloads []*Workload
	now       time.Time
}

func newWorld(t *testing.T, groups ...*trellisv1alpha1.ScalingGroup) *world {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "g", UID: "g-uid", Labels: map[string]string{render.LabelKueueQueue: "q"},
	}}
	return &world{t: t, dgd: dgd, groups: groups, now: noon}
}

func (w *world) observation() Observation {
	return Observation{DGD: w.dgd, Groups: w.groups, Pods: w.pods, Workloads: w.workloads, Now: w.now}
}

// make makes the pods of a replica, as the controller of scaling groups does.
func (w *world) make(sg *trellisv1alpha1.ScalingGroup, ordinals ...int32) {
	w.t.Helper()
	joining := Join(sg, w.groups, membersOf(sg, w.pods), w.workloads)
	for _, ordinal := range ordinals {
		for index := range render.PodsPerReplica(sg) {
			pod := gangtest.Pod(sg, ordinal, index)
			pod.CreationTimestamp = metav1.NewTime(w.now)
			joining.Add(pod)
			w.pods = append(w.pods, pod)
		}
	}
}

// gone takes the pods of a replica away.
func (w *world) gone(sg *trellisv1alpha1.ScalingGroup, ordinal int32) {
	w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool {
		n, _, _ := render.ReplicaOf(pod)
		return n == ordinal && render.Member(pod, sg)
	})
}

// step does what is planned, and says it: "+" a Workload with its podsets, "-" one that goes.
func (w *world) step() []string {
	w.t.Helper()
	lines, next := w.look()
	if !next.IsZero() {
		w.now = next
		more, _ := w.look()
		lines = append(lines, more...)
	}
	if again := Plan(w.observation()); len(again.Create)+len(again.Delete)+len(again.Requeue)+len(again.Hold)+len(again.Resume) > 0 {
		w.t.Errorf("once more something is to be done: %+v", again)
	}
	return lines
}

// look does what one look at the deployment comes to, and returns when the next one is wanted.
func (w *world) look() (lines []string, next time.Time) {
	w.t.Helper()
	s := Plan(w.observation())
	for _, one := range s.Create {
		var sets []string
		for _, set := range one.Spec.PodSets {
			sets = append(sets, fmt.Sprintf("%sx%d", short(set.Name), set.Count))
		}
		lines = append(lines, "+"+short(one.Name)+" "+strings.Join(sets, " "))
		one.UID, one.CreationTimestamp = types.UID(one.Name), metav1.NewTime(w.now)
		w.workloads = append(w.workloads, one)
	}
	for _, one := range s.Delete {
		lines = append(lines, "-"+short(one.Name))
		w.workloads = slices.DeleteFunc(w.workloads, func(other *Workload) bool { return other == one })
	}
	for _, one := range s.Requeue {
		lines = append(lines, short(one.Name)+" to "+s.Queue)
		one.Spec.QueueName = s.Queue
	}
	for _, one := range s.Hold {
		w.applied(one, HoldPatch)
	}
	for _, one := range s.Resume {
		w.applied(one, ResumePatch)
	}
	return lines, s.Next
}

// short is a name without its hash.
func short(name string) string { return name[:strings.LastIndex(name, "-")] }

func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.step()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func set(w *Workload, kind string, status metav1.ConditionStatus, message string) {
	w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: kind, Status: status, Message: message})
}

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
