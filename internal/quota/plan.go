// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// LabelGraphUID on Workloads holds the UID of their deployment.
const LabelGraphUID = "trellis.dev/graph-uid"

// annotationGroup marks a Workload that is for a group of pods.
const annotationGroup = "kueue.x-k8s.io/is-group-workload"

// Observation is the input for planning the Workloads of one deployment.
type Observation struct {
	DGD *nvidiav1beta1.DynamoGraphDeployment
	// Groups are the deployment's scaling groups, and Pods are the pods of these groups.
	Groups []*trellisv1alpha1.ScalingGroup
	Pods   []*corev1.Pod
	// Record is the content of the deployment's GraphPlacement; nil for none.
	Record *assignment.Record
	// Workloads are the existing Workloads of the deployment.
	Workloads []*Workload
	// ChecksDenied is the reason why Trellis cannot set AdmissionChecks; "" while it can.
	ChecksDenied string
	Now          time.Time
}

// Queue returns the queue that the deployment names; "" for none.
func (o *Observation) Queue() string { return o.DGD.Labels[render.LabelKueueQueue] }

// Steps are the writes that the caller has to make.
type Steps struct {
	Create []*Workload
	// Delete are Workloads that no pod needs any more, or that Kueue ignores. Deleting a Workload releases its quota. The Workload's
	// remaining pods are recreated with the next Workload.
	Delete []*Workload
	// Requeue are Workloads without quota that have to move from another queue to Queue, the deployment's queue.
	Requeue []*Workload
	Queue   string
	// Hold are Workloads that now have to wait until the Workloads of the first replicas have quota. Resume are Workloads that no longer
	// have to wait.
	Hold, Resume []*Workload
	// Unmark are Workloads that Trellis had paused or held and that another client has activated.
	Unmark []*Workload
	// Ask are Workloads that gave their quota back and now request quota again.
	Ask []*Workload
	// Next is the time at which the next Workload requests quota or is created, if nothing else changes; zero for never.
	Next time.Time
}

// Plan compares the Workloads that a deployment's pods name with the existing Workloads, and returns the necessary changes.
func Plan(o Observation) Steps {
	s := Steps{Queue: o.Queue()}
	members := map[string][]*corev1.Pod{}
	for _, pod := range o.Pods {
		if name := WorkloadOf(pod); name != "" {
			members[name] = append(members[name], pod)
		}
	}
	a := o.asks()
	kept, awaited := o.kept(a), o.awaited(a)
	for _, w := range o.Workloads {
		if w.DeletionTimestamp == nil {
			used := (len(members[w.Name]) > 0 || kept[w.Name]) && !o.outdated(w, a)
			s.change(w, used, follows(w.Name, awaited), o.Now)
		}
	}
	if o.Queue() == "" || o.Refused() != nil {
		return s
	}
	s.create(o, a, awaited, members)
	return s
}

// outdated reports whether a Workload has to be replaced. The base is outdated if it has no quota and its podsets differ from the podsets
// that its pods need now, for example because requests were lowered. Kueue does not allow changing the podsets. While pods are being
// recreated, the needs of the pods are unknown, so the base is kept. A Workload that another client has deactivated is kept too, because a
// new Workload would be active. A Workload that Kueue has deactivated, base or not, is outdated when its pod templates change.
func (o *Observation) outdated(w *Workload, a asks) bool {
	if o.abandoned(w, a) {
		return true
	}
	base := a.base
	if w.Name != base.Name || len(base.PodSets) == 0 || w.deactivated() || w.holdsQuota() || w.undecided() || o.suits(base) {
		return false
	}
	return !slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return !o.complete(sg) })
}

// follows reports whether a Workload must not get quota until the awaited Workloads have quota.
func follows(name string, awaited map[string]bool) bool { return len(awaited) > 0 && !awaited[name] }

// firstWord is the time that Trellis waits for Kueue's decision about the first replicas before it creates the other Workloads. Usually
// Kueue reserves quota immediately, and the other Workloads are created active. Otherwise they are created inactive. The time is short,
// because Kueue retries pods whose Workload does not exist at increasing intervals. The wait may end up to one second early, because the
// API server's timestamps are whole seconds.
const firstWord = 2 * time.Second

// create selects the missing Workloads to create now: first the awaited Workloads, then the Workloads that follow them.
func (s *Steps) create(o Observation, a asks, awaited map[string]bool, members map[string][]*corev1.Pod) {
	names := slices.Sorted(maps.Keys(members))
	for _, follow := range []bool{false, true} {
		for _, name := range names {
			if a.workloads[name] != nil || follows(name, awaited) != follow {
				continue
			}
			sets := o.podSetsFor(a, name, members[name])
			if len(sets) == 0 {
				continue
			}
			w := o.workload(name, sets, members[name])
			w.Annotations[annotationMadeFrom] = madeFrom(o.groupsIn(name, a))
			if follow {
				if until := s.undecided(o, a, awaited, members[name]); until.After(o.Now) {
					s.LookAt(until)
					continue
				}
				w.hold()
			}
			s.Create = append(s.Create, w)
		}
	}
}

// undecided returns the time until which the Workload for these pods is not created, because Kueue may still decide about the awaited
// Workloads; zero once Kueue has decided. If an awaited Workload does not exist and is not created now, the wait starts with the creation
// of the pods.
func (s *Steps) undecided(o Observation, a asks, awaited map[string]bool, pods []*corev1.Pod) (until time.Time) {
	for name := range awaited {
		w, since := a.workloads[name], o.Now
		switch {
		case w == nil && !slices.ContainsFunc(s.Create, func(created *Workload) bool { return created.Name == name }):
			for _, pod := range pods {
				if pod.CreationTimestamp.Time.Before(since) {
					since = pod.CreationTimestamp.Time
				}
			}
		case w != nil && w.undecided():
			since = w.CreationTimestamp.Time
		case w != nil:
			continue
		}
		if at := since.Add(firstWord); at.After(until) {
			until = at
		}
	}
	if until.After(o.Now.Add(2 * firstWord)) {
		return time.Time{} // the API server's clock is ahead
	}
	return until
}

// change selects the step for an existing Workload. used: pods or their successors need the Workload; follow: the Workload waits for the
// first replicas.
func (s *Steps) change(w *Workload, used, follow bool, now time.Time) {
	switch {
	case w.Finished(), !used:
		s.Delete = append(s.Delete, w)
	case s.Queue != "" && w.Spec.QueueName != s.Queue && !w.holdsQuota():
		s.Requeue = append(s.Requeue, w)
	case w.active() && w.marked():
		s.Unmark = append(s.Unmark, w)
	case follow && w.active():
		s.Hold = append(s.Hold, w)
	case !follow && w.Follows():
		s.Resume = append(s.Resume, w)
	default:
		s.endPause(w, now)
	}
}

// endPause makes a Workload request quota again when its pause has ended.
func (s *Steps) endPause(w *Workload, now time.Time) {
	switch pause, is := w.paused(); {
	case !is:
	case !pause.Until.After(now):
		s.Ask = append(s.Ask, w)
	default:
		s.LookAt(pause.Until)
	}
}

// LookAt schedules another evaluation of the deployment, unless an earlier evaluation is scheduled.
func (s *Steps) LookAt(at time.Time) {
	if s.Next.IsZero() || at.Before(s.Next) {
		s.Next = at
	}
}

// kept returns the Workloads that keep their quota while their pods are replaced, because the pods' successors join them.
func (o *Observation) kept(a asks) map[string]bool {
	out := map[string]bool{}
	if o.Queue() == "" {
		return out
	}
	due := false
	for _, sg := range o.Groups {
		if sg.Spec.Replicas == 0 || sg.DeletionTimestamp != nil {
			continue
		}
		roles, pods := a.roles[sg], membersOf(sg, o.Pods)
		for _, ordinal := range gang.Ordinals(sg, pods, o.Record.Replicas(sg.Spec.Component)) {
			of := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { n, _, _ := render.ReplicaOf(pod); return int(n) != ordinal })
			own := ownName(sg, int32(ordinal), roles)
			out[own] = !slices.ContainsFunc(of, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && WorkloadOf(pod) != own })
			due = due || len(of) == 0
		}
	}
	if due && o.suits(a.base) {
		out[a.base.Name] = true
	}
	return out
}

// suits reports whether the base's existing Workload has the podset names and counts of a new Workload for the base.
func (o *Observation) suits(base Base) bool {
	at := slices.IndexFunc(o.Workloads, func(w *Workload) bool { return w.Name == base.Name })
	return at >= 0 && len(base.PodSets) > 0 && slices.EqualFunc(o.Workloads[at].Spec.PodSets, base.PodSets, func(a, b PodSet) bool {
		return a.Name == b.Name && a.Count == b.Count
	})
}

func membersOf(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !render.Member(pod, sg) })
}
