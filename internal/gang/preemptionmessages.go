// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"strings"
	"time"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Preempts returns a message about the pods and replicas that must be preempted for a replica that was just placed.
func Preempts(replica placement.ReplicaResult) string {
	return fmt.Sprintf("goes to %s once pods of lower priority have left: %d of %s", OrCluster(replica.Domain), replica.Preempts.Pods,
		Victims(replica.Preempts))
}

// WaitsForPreemption returns the message that a pod waits until the kube-scheduler has preempted other pods on a node.
func WaitsForPreemption(node string) string {
	return "waits for pods of lower priority to leave node " + node
}

// WaitsForVictims returns the message that a pod waits for victims to leave a node. The message names the first of the victims, which must
// be the victim that terminates last.
func WaitsForVictims(node string, victims []topology.Leaving) string {
	return fmt.Sprintf("waits for pod %s to leave node %s, by %s", andMore(victims), node, clock(victims[0].Until))
}

// VictimsStayed returns the message that victims did not leave a node in time.
func VictimsStayed(node string, victims []topology.Leaving) string {
	return fmt.Sprintf("pod %s has not left node %s, although its grace period ended at %s", andMore(victims), node, clock(victims[0].Until))
}

func andMore(victims []topology.Leaving) string {
	return limit.Join([]string{victims[0].Pod}, len(victims), 1, "")
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Victims names the preempted replicas for a message. It only counts the preempted pods that do not belong to Trellis, because their names
// do not identify their workloads.
func Victims(p *placement.Preemption) string {
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
