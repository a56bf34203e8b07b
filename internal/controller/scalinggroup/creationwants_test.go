// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/assignment"
)

// A replica is created before others if it was whole before: all its pods were bound, or a place was found for pods that exist. One whose
// first pod was bound before another was refused is not.
func TestSuccessorsOfWholeReplicas(t *testing.T) {
	sg := group(1, 2)
	worker := assignment.Key{Component: sg.Spec.Component}
	bound := func(r *assignment.Record) { r.Bound[worker] = assignment.Place{Attempt: 1} }
	assigned := func(r *assignment.Record) { r.Assign("g", worker, nil, []string{"a", "b"}, time.Time{}) }
	evicted := func(r *assignment.Record) {
		assigned(r)
		r.Evict("g", nil, "not all of its pods could be created", time.Time{})
	}
	former := func(r *assignment.Record) {
		evicted(r)
		r.Follow(nil, func(assignment.Key) bool { return true }, func(string) bool { return false }, time.Time{})
	}
	for name, tc := range map[string]struct {
		record  func(*assignment.Record)
		pods    []state
		gated   bool
		inPlace bool
	}{
		"nothing is known":              {},
		"all pods were bound":           {record: bound, gated: true, inPlace: true},
		"all pods are bound":            {pods: []state{running, running}, gated: true, inPlace: true},
		"one pod is bound":              {pods: []state{unready, nil}},
		"one pod is bound, one is not":  {pods: []state{unready, gated}},
		"one pod is Ready, one is gone": {pods: []state{running, nil}, gated: true, inPlace: true},
		"another place than before": {record: func(r *assignment.Record) {
			bound(r)
			former(r)
		}, gated: true, inPlace: true},
		"a place":                       {record: assigned, gated: true},
		"a place that was lost":         {record: evicted, gated: true},
		"a place that was lost earlier": {record: former, gated: true},
	} {
		for gated, want := range map[bool]bool{true: tc.gated, false: tc.inPlace} {
			record := (&assignment.Record{}).Clone()
			if tc.record != nil {
				tc.record(record)
			}
			replicas := replicasOf(sg, podsOf(sg, 0, tc.pods...), func(*corev1.Pod) bool { return false })
			v := &view{gated: gated, o: observed{sg: sg, replicas: replicas, attempts: attempts{recorded: record.Replicas(sg.Spec.Component)}}}
			if got := v.wantOf(0, true, false).Succeeds; got != want {
				t.Errorf("%s, gated %v: succeeds is %v, want %v", name, gated, got, want)
			}
		}
	}
}
