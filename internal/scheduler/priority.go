// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

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
