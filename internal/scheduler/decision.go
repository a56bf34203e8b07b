// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// decision is the result of one evaluation of a graph.
type decision struct {
	graph    types.NamespacedName
	releases []gang.Release
	// asked are the asks for replicas that have no place yet. undecided are the replicas whose ask a later decision answers. gated has the
	// first planned pod of each replica that is created gated.
	asked     []asked
	undecided map[gang.Key]bool
	gated     []*corev1.Pod
	result    gang.Result
	// waits describes the capacity that the graph waits for.
	waits waiting
	// overdue are the gangs with planned pods that were not created in time, by name. These gangs are refused and created gated.
	overdue map[string]bool
	// evicted are the gangs to evict and requeue, by name. A decision that evicts gangs releases no pods.
	evicted map[string]eviction
	// parted maps released pods, by ID, to the reason why other pods of their replica or base gang are not placed.
	parted map[string]string
	// unplanned: replicas wait, and no plan was made.
	unplanned bool
	// promised are the graph's pods with Kueue quota that Kueue admits only after their places are reserved.
	promised promised
	// recorded is the GraphPlacement that the decision read. record is the new content of the GraphPlacement, which is written before pods
	// are released or created; nil for no change.
	recorded recorded
	record   *assignment.Record
	// assigned maps the placed replicas to their attempts. again contains the names ([gang.Of]) of the replicas that lose a recorded place,
	// where another operator may have released their pods.
	assigned map[gang.Key]int32
	again    map[string]bool
	// stands has the recorded gangs that keep their places. These gangs are released now or later.
	stands map[string]bool
	// byRecord: the decision releases recorded gangs.
	byRecord bool
	// wake are the graphs to evaluate again after the decision, and events are the events to report on the graph.
	wake   wake
	events []event
}

// event is an event about the place of a graph.
type event struct{ reason, note string }

func (d *decision) evict(gang string, why eviction) {
	if d.evicted == nil {
		d.evicted = map[string]eviction{}
	}
	d.evicted[gang] = why
}

// lookAt schedules another evaluation of the graph at the given time.
func (d *decision) lookAt(at time.Time) { d.wake.at(d.graph, at) }

// wakeWaiting requeues all graphs that wait for capacity if "so" is set.
func (d *decision) wakeWaiting(so bool) { d.wake.waiting = d.wake.waiting || so }

func (d *decision) report(reason, format string, args ...any) {
	d.events = append(d.events, event{reason, fmt.Sprintf(format, args...)})
}

// eviction describes why a gang is evicted. reason is the label value in metrics, and why is the message.
type eviction struct {
	reason, why string
	// follows: the gang is evicted only because the base gang is evicted. recorded: the eviction was announced before, and continues.
	follows, recorded bool
	// uncreated: not all pods of the gang could be created. The pods are created again, with the capacity that was held for them.
	uncreated bool
}

// keptGang is a gang whose recorded eviction ended before any pod was deleted. since is the time at which the gang was assigned.
type keptGang struct {
	graph types.NamespacedName
	since time.Time
}

// plannedPod is a planned pod that is being created.
type plannedPod struct {
	pod   *corev1.Pod
	graph types.NamespacedName
	// others: another operator may be creating the pod.
	others bool
}

// knownPlace is a recorded place of a replica: its attempt, and the time at which this operator first read the place.
type knownPlace struct {
	attempt int32
	since   time.Time
}

// wake lists the graphs to evaluate again after an event or a decision.
type wake struct {
	// now and later list the graphs to evaluate immediately, and at a given time.
	now   []types.NamespacedName
	later []look
	// waiting: evaluate all graphs that wait for capacity. ruled: evaluate the waiting graphs that are restricted by volumes or by rules
	// about other pods.
	waiting, ruled bool
}

type look struct {
	graph types.NamespacedName
	at    time.Time
}

func (w *wake) at(graph types.NamespacedName, at time.Time) {
	w.later = append(w.later, look{graph, at})
}

// waiting describes the capacity that a graph waits for.
type waiting struct {
	// preemptsBelow: the graph can preempt bound pods with a lower priority than this.
	preemptsBelow int32
	// unmet has the requests of the graph's refused gangs; nil if a change of any node may matter.
	unmet *placement.Unmet
	// ruled: rules about other pods, volumes, or the spread of replicas restrict the graph's refused gangs.
	ruled bool
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// logger returns the logger of a context, with the name of the graph in each line.
func logger(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) logr.Logger {
	return log.FromContext(ctx).WithValues("graph", client.ObjectKeyFromObject(dgd))
}

// gangRelease is a gang that is being released.
type gangRelease struct {
	gang   gang.Members
	placer provider.Placer
	pods   []gang.Release
	// begun: a pod of the gang is released already. left is the number of pods that are still to be released.
	begun bool
	left  atomic.Int32
	// hosts are the planned hosts of the pods.
	hosts []string
}

// promised are the pods of a graph that are planned before Kueue admits them. Their places are reserved, but the pods are not released
// (docs/quotas.md#a-place-before-admission).
type promised struct {
	// workloads has, by pod ID, the names of the pods' Workloads.
	workloads map[string]string
	// fingerprints maps the names of the promised Workloads to the fingerprints of their pods (see quota.Promise).
	fingerprints map[string]string
	// kept are the replicas that are planned but not released.
	kept []placement.ReplicaResult
}
