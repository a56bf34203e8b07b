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

// decision is what a look at a graph comes to.
type decision struct {
	graph    types.NamespacedName
	releases []gang.Release
	// asked are the replicas that groups want to create in place and that had no place, undecided those for which that is still open. gated
	// are the first planned pods of those that are created gated.
	asked     []asked
	undecided map[gang.Key]bool
	gated     []*corev1.Pod
	result    gang.Result
	// waits is what the graph waits for.
	waits waiting
	// overdue are gangs with planned pods that are not created in time, by name. They are refused.
	overdue map[string]bool
	// evicted are gangs that are evicted and requeued, by name; nothing else is decided then.
	evicted map[string]eviction
	// parted are released pods the rest of whose replica is refused, and why.
	parted map[string]string
	// promised is what of the graph has quota of Kueue, and is not admitted before its place is reserved.
	promised promised
	// recorded is the GraphPlacement that the decision read. record is its new content, written before releases and creates; nil for no
	// change.
	recorded recorded
	record   *assignment.Record
	// assigned are the attempts of the placed replicas. again are the replicas, by [gang.Of], that lose a recorded place; another operator may
	// have released their pods there.
	assigned map[gang.Key]int32
	again    map[string]bool
	// stands are the recorded gangs that keep their places, for a release now or later.
	stands map[string]bool
	// byRecord: recorded gangs are released now.
	byRecord bool
	// wake are the graphs that the decision concerns, events what it reports on the graph.
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

// lookAt has the graph evaluated again at a time.
func (d *decision) lookAt(at time.Time) { d.wake.at(d.graph, at) }

// wakeWaiting has all graphs that wait for capacity evaluated again, if so.
func (d *decision) wakeWaiting(so bool) { d.wake.waiting = d.wake.waiting || so }

func (d *decision) report(reason, format string, args ...any) {
	d.events = append(d.events, event{reason, fmt.Sprintf(format, args...)})
}

// eviction is why a gang is evicted, for the metrics and in words.
type eviction struct {
	reason, why string
	// follows: nothing stands against the gang itself. recorded: it is continued, and known.
	follows, recorded bool
	// uncreated: not all of its pods could be created. They are created again, with the capacity that was held for them.
	uncreated bool
}

// keptGang is a gang whose recorded eviction has ended before a pod was deleted. since is the time of its assignment.
type keptGang struct {
	graph types.NamespacedName
	since time.Time
}

// plannedPod is a planned pod that is being created.
type plannedPod struct {
	pod   *corev1.Pod
	graph types.NamespacedName
	// others: another operator may be creating it.
	others bool
}

// knownPlace is since when this operator knows the place of a replica at an attempt.
type knownPlace struct {
	attempt int32
	since   time.Time
}

// wake is the graphs that an event or a decision concerns: they are evaluated again.
type wake struct {
	// now are those to evaluate now, later those to evaluate at a time.
	now   []types.NamespacedName
	later []look
	// waiting: all graphs that wait for capacity; ruled: those of them that rules about other pods, or volumes, bind.
	waiting, ruled bool
}

type look struct {
	graph types.NamespacedName
	at    time.Time
}

func (w *wake) at(graph types.NamespacedName, at time.Time) {
	w.later = append(w.later, look{graph, at})
}

// waiting is what a graph waits for.
type waiting struct {
	// preemptsBelow is the priority below which bound pods are capacity for the graph.
	preemptsBelow int32
	// unmet is what its refused gangs ask for; nil when a change of any node may matter.
	unmet *placement.Unmet
	// ruled: rules about other pods, or volumes, bind its refused gangs.
	ruled bool
}

// earlier is the first of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// logger names the graph in each line.
func logger(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) logr.Logger {
	return log.FromContext(ctx).WithValues("graph", client.ObjectKeyFromObject(dgd))
}

// gangRelease is one gang that is being released.
type gangRelease struct {
	gang   gang.Members
	placer provider.Placer
	pods   []gang.Release
	// begun: a pod of the gang is released already. left is how many are still to be released.
	begun bool
	left  atomic.Int32
	// hosts are the planned hosts of the pods.
	hosts []string
}

// promised is what of a graph is planned before Kueue admits it: its place is reserved, and nothing of it is released
// (docs/quotas.md#a-place-before-admission).
type promised struct {
	// workloads are those of the pods that are to be planned, by pod ID.
	workloads map[string]string
	// fingerprints identify what is planned of each promised Workload.
	fingerprints map[string]string
	// kept are the replicas that were planned, and are not released.
	kept []placement.ReplicaResult
}
