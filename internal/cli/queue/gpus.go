// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"strconv"

	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// GPUs counts the GPUs that the replicas of a deployment request.
type GPUs struct {
	// Waiting counts the GPUs of replicas that are not completely scheduled.
	Waiting int64 `json:"gpusWaiting"`
	// All counts the GPUs of wanted replicas.
	All int64 `json:"gpus"`
}

// gpusOf counts the GPUs of a deployment; nil if the GPUs of a component are unknown.
func gpusOf(dgd *nvidiav1beta1.DynamoGraphDeployment) *GPUs {
	out := &GPUs{}
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		status := dgd.Status.Components[c.Name]
		each, known := perReplica(c, status)
		if !known {
			return nil
		}
		wanted := replicas.Of(c)
		out.All += int64(wanted) * each
		out.Waiting += int64(max(0, wanted-ptr.Deref(status.ScheduledReplicas, 0))) * each
	}
	return out
}

// perReplica returns the number of GPUs of one replica, from the status or else from the spec. Only the number in the status includes GPUs
// that pods request with device claims.
func perReplica(c *nvidiav1beta1.ComponentSpec, status nvidiav1beta1.ComponentStatus) (n int64, known bool) {
	if status.GPUsPerReplica != nil {
		return *status.GPUsPerReplica, true
	}
	if c.PodTemplate == nil {
		return 0, true
	}
	pods, _ := c.PodsPerReplica()
	shape, err := gpus.ShapeOf([]gpus.Pods{{Spec: &c.PodTemplate.Spec, Count: int64(pods)}}, gpus.Devices{})
	return shape.PerReplica, err == nil
}

// cell renders the waiting GPUs, followed by all GPUs if that number differs.
func (g *GPUs) cell() string {
	switch {
	case g == nil:
		return "-"
	case g.Waiting == g.All:
		return strconv.FormatInt(g.All, 10)
	}
	return fmt.Sprintf("%d/%d", g.Waiting, g.All)
}
