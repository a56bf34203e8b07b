// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

var (
	profile  = gangtest.Profile
	frozen   = gangtest.Frozen
	newGroup = gangtest.Group
	newPod   = gangtest.Pod
)

func placementAt(domain string) trellisv1alpha1.ReplicaPlacement {
	return trellisv1alpha1.ReplicaPlacement{Domain: domain}
}
