// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// A Workload that was created and that the cache does not show yet is not created again, but not for ever.
func TestWorkloadsThatTheCacheDoesNotShow(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	one := &quota.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	for name, tc := range map[string]struct {
		between func(look func(time.Time, ...*quota.Workload) bool, u *unseen)
		after   time.Duration
		want    bool
	}{
		"it is not seen yet": {func(func(time.Time, ...*quota.Workload) bool, *unseen) {}, time.Second, false},
		"it never was":       {func(func(time.Time, ...*quota.Workload) bool, *unseen) {}, seenWithin, true},
		"it was seen, and is gone": {func(look func(time.Time, ...*quota.Workload) bool, _ *unseen) {
			look(noon, one)
		}, time.Second, true},
		"its create failed": {func(_ func(time.Time, ...*quota.Workload) bool, u *unseen) {
			u.notCreated(client.ObjectKeyFromObject(dgd), "one")
		}, 0, true},
		"its deployment is new": {func(_ func(time.Time, ...*quota.Workload) bool, u *unseen) { u.forget(client.ObjectKeyFromObject(dgd)) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unseen{}
			look := func(now time.Time, exist ...*quota.Workload) bool {
				s := quota.Steps{}
				if len(exist) == 0 {
					s.Create = []*quota.Workload{one}
				}
				u.await(&quota.Observation{DGD: dgd, Workloads: exist, Now: now}, &s)
				if waits := len(exist)+len(s.Create) == 0; waits != s.Next.Equal(noon.Add(seenWithin)) {
					t.Errorf("it waits: %v, and the next look is at %v", waits, s.Next)
				}
				return len(s.Create) > 0
			}
			if !look(noon) {
				t.Fatal("it is not created at first")
			}
			tc.between(look, u)
			if got := look(noon.Add(tc.after)); got != tc.want {
				t.Errorf("it is created: %v, want %v", got, tc.want)
			}
		})
	}
}
