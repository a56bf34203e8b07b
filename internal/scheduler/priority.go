// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Reasons of events about priority.
const (
	// EventPreempting tells that a gang gets capacity which others have to free.
	EventPreempting = "Preempting"
)

// preemptedFor is how long a replica counts as preempted: long enough for all its pods to end.
const preemptedFor = 10 * time.Minute

// gangOf names the replica that a pod of ours belongs to; "" for pods of others, each of which stands for itself.
func gangOf(pod *corev1.Pod) string {
	group := pod.Labels[graph.LabelScalingGroup]
	if group == "" {
		return ""
	}
	return pod.Namespace + "/" + group + "-" + pod.Labels[graph.LabelReplica]
}

// lowerPriority makes the graph's priority that of the least important pod that waits: all of the gang may ask for no more than that.
// Whether a pod preempts at all is what its priority class says.
func (v *view) lowerPriority(pod *corev1.Pod) {
	priority := topology.PriorityOf(pod)
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	if !v.ranked {
		v.ranked = true
		v.graph.Priority, v.graph.Preempts = priority, !never
		return
	}
	v.graph.Priority = min(v.graph.Priority, priority)
	v.graph.Preempts = v.graph.Preempts && !never
}

// preemptsBelow is the priority below which bound pods are capacity for the graph.
func (v *view) preemptsBelow() int32 {
	if !v.graph.Preempts {
		return math.MinInt32
	}
	return v.graph.Priority
}

// priorities are those of the most important pod of each graph.
func (s *Scheduler) priorities(ctx context.Context, graphs []*nvidiav1beta1.DynamoGraphDeployment) map[types.UID]int32 {
	out := map[types.UID]int32{}
	for _, dgd := range graphs {
		pods := &corev1.PodList{}
		err := s.reader.List(ctx, pods, client.InNamespace(dgd.Namespace), client.MatchingFields{IndexPodsByGraph: graph.LabelValue(dgd.Name)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "listing the pods of a graph", "graph", client.ObjectKeyFromObject(dgd))
			continue
		}
		for i := range pods.Items {
			if p := topology.PriorityOf(&pods.Items[i]); i == 0 || p > out[dgd.UID] {
				out[dgd.UID] = p
			}
		}
	}
	return out
}

// trackPreempted remembers which replicas had to free capacity. Called with the lock held.
func (s *Scheduler) trackPreempted(pod *corev1.Pod) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			if gang := gangOf(pod); gang != "" {
				s.preempted[gang] = s.options.Clock.Now()
			}
		}
	}
}

// tell says what is remarkable about a place that was found: who has to free capacity, and that a replica comes back elsewhere.
func (s *Scheduler) tell(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, v *view, replica placement.ReplicaResult) {
	name := fmt.Sprintf("%s-%d", replica.Service, replica.Ordinal)
	if p := replica.Preempts; p != nil && (!replica.Base || !v.announced) {
		if replica.Base {
			v.announced, name = true, "the base gang"
		}
		preemptionsPlanned.Inc()
		who := victims(p)
		logger(ctx, dgd).Info("preempting", "replica", name, "domain", replica.Domain.String(), "pods", p.Pods, "of", who)
		s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventPreempting, "Place", "%s goes to %s, where pods of lower priority have to free capacity: %d of %s",
			name, orCluster(replica.Domain), p.Pods, who)
	}
	if move := s.moved(v, replica); move != "" {
		replicasMoved.Inc()
		logger(ctx, dgd).Info("moving a replica as a whole", "replica", name, "move", move)
		s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventMoved, "Place", "%s moves as a whole %s", name, move)
	}
}

// maxVictims is how many replicas a message names.
const maxVictims = 5

// victims names the replicas that have to free capacity. Pods of others are counted: their names say nothing about who loses what.
func victims(p *placement.Preemption) string {
	var names []string
	others := 0
	for _, gang := range p.Gangs {
		switch {
		case !strings.Contains(gang, "/"):
			others++
		case len(names) < maxVictims:
			names = append(names, gang)
		}
	}
	if more := len(p.Gangs) - others - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more replicas", more))
	}
	if others > 0 {
		names = append(names, fmt.Sprintf("%d other pods", others))
	}
	return strings.Join(names, ", ")
}

func orCluster(p topology.Path) string {
	if len(p) == 0 {
		return "the cluster"
	}
	return p.String()
}
