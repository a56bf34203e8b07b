// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// settle is the deployment with the replicas it may be given now, and why these are fewer than it asks for, or "". A component whose
// adapter and deployment disagree keeps the replicas it has until they agree; then all of them keep the bound on the pods of one graph.
func settle(o observed, maxPods int64) (settled *nvidiav1beta1.DynamoGraphDeployment, overLimit string) {
	has := map[string]int32{}
	for component, sg := range o.groups {
		has[component] = sg.Spec.Replicas
	}
	wanted := replicas.Settled(o.dgd, o.adapters, has)
	settled, short := podlimit.Bound(wanted, o.groups, maxPods)
	if settled == wanted {
		return settled, ""
	}
	return settled, validation.Exceeded(wanted, short, maxPods)
}
