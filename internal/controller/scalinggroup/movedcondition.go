// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// maxMovesNamed is the maximum number of moves that a condition describes.
const maxMovesNamed = 3

// setMoved sets the condition Moved, which describes the moves in the status.
func setMoved(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, status *trellisv1alpha1.ScalingGroupStatus) {
	if len(status.Moves) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, trellisv1alpha1.ConditionMoved)
		return
	}
	reason := trellisv1alpha1.ReasonMoving
	texts := make([]string, 0, len(status.Moves))
	for _, move := range status.Moves {
		if move.InPlace {
			reason = trellisv1alpha1.ReasonMoveWaits
		}
		texts = append(texts, fmt.Sprintf("moving %s-%d: %s (%s)", sg.Spec.Component, move.Replica, howMoved(sg, replicas, move), move.Why))
	}
	if len(texts) > maxMovesNamed {
		texts = append(texts[:maxMovesNamed], fmt.Sprintf("%d further replicas wait for their turn", len(status.Moves)-maxMovesNamed))
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: trellisv1alpha1.ConditionMoved, Status: metav1.ConditionFalse, ObservedGeneration: sg.Generation, Reason: reason,
		Message: limit.Text(strings.Join(texts, "; "), limit.Condition),
	})
}

// howMoved describes what a move waits for.
func howMoved(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, move trellisv1alpha1.ReplicaMove) string {
	group := rollout.For(sg)
	if move.InPlace || group.MovesInPlace || group.Recreate {
		return fmt.Sprintf("it goes when more than %d replicas serve, and %d do",
			max(0, group.Replicas-max(1, group.MaxUnavailable)), replicasThatServe(replicas))
	}
	leaving := map[int32]bool{}
	for i := range sg.Status.Moves {
		leaving[sg.Status.Moves[i].Replica] = true
	}
	for _, ordinal := range sortedOrdinals(replicas) {
		one := replicas[ordinal]
		if one.outdated || leaving[ordinal] || !one.there() {
			continue
		}
		if waits := one.waitsFor(); waits != "" {
			return fmt.Sprintf("its successor %s-%d %s", sg.Spec.Component, ordinal, waits)
		}
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(replicas)), func(one *replica) bool { return one.outdated && one.there() }) {
		return "the update that runs comes first"
	}
	return "its successor is to be created"
}

// waitsFor describes what a replica waits for, if it is the successor of a replica that moves. It returns "" for an available replica,
// which is either no successor or a successor whose predecessor is deleted now.
func (r *replica) waitsFor() string {
	switch state, _ := r.state(); state {
	case rollout.Partial:
		return fmt.Sprintf("is created, %d of %d pods exist", len(r.pods), r.size)
	case rollout.Waiting:
		return "waits for a place"
	case rollout.Starting:
		return fmt.Sprintf("waits for Ready, %d of %d pods", r.readyPods(), r.size)
	case rollout.Broken, rollout.Leaving, rollout.Lost:
		return "is recreated"
	case rollout.Available:
	}
	return ""
}

// replicasThatServe counts the replicas that serve.
func replicasThatServe(replicas map[int32]*replica) (n int) {
	for _, one := range replicas {
		if state, _ := one.state(); state == rollout.Available {
			n++
		}
	}
	return n
}

func (r *replica) readyPods() int {
	n := 0
	for _, pod := range r.pods {
		if render.PodReady(pod) {
			n++
		}
	}
	return n
}

// moving counts moves for the metrics. The zero value is ready to use.
type moving struct {
	mu      sync.Mutex
	byGroup map[types.NamespacedName]movesOf
}

type movesOf struct{ all, overdue int }

var replicasMoving = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "trellis_replicas_moving",
	Help: "Replicas that are to leave their nodes: state waiting for those that wait for a successor, overdue for those that go without one " +
		"as soon as enough others serve.",
}, []string{"state"})

func init() {
	metrics.Registry.MustRegister(replicasMoving)
	for _, state := range []string{"waiting", "overdue"} { // 0 until a replica moves
		replicasMoving.WithLabelValues(state)
	}
}

// note records the moves of a group, and updates the metric.
func (m *moving) note(name types.NamespacedName, moves []trellisv1alpha1.ReplicaMove) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := movesOf{all: len(moves)}
	for i := range moves {
		if moves[i].InPlace {
			now.overdue++
		}
	}
	if now == m.byGroup[name] {
		return
	}
	if m.byGroup == nil {
		m.byGroup = map[types.NamespacedName]movesOf{}
	}
	m.byGroup[name] = now
	if now.all == 0 {
		delete(m.byGroup, name)
	}
	sum := movesOf{}
	for _, one := range m.byGroup {
		sum.all, sum.overdue = sum.all+one.all, sum.overdue+one.overdue
	}
	replicasMoving.WithLabelValues("waiting").Set(float64(sum.all - sum.overdue))
	replicasMoving.WithLabelValues("overdue").Set(float64(sum.overdue))
}
