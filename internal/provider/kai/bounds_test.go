// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Only replicas that may exist are asked about, whatever number is wanted.
func TestReleasedIsBounded(t *testing.T) {
	sg, asked := &trellisv1alpha1.ScalingGroup{}, 0
	sg.Spec.Replicas = math.MaxInt32
	g := Input{Ordinals: 3, Released: func(_ *trellisv1alpha1.ScalingGroup, ordinal int32) bool { asked++; return ordinal > 0 }}
	if diff := cmp.Diff([]int32{1, 2}, g.released(sg)); diff != "" || asked != 3 {
		t.Errorf("%d replicas were asked about; released (-want +got):\n%s", asked, diff)
	}
}
