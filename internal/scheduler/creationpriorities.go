// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// addPriorities adds the priorities of the pods that graphs ask places for: theirs is that of their most important pod, made or not.
func (b *Creations) addPriorities(to map[types.UID]int32, graphs []*nvidiav1beta1.DynamoGraphDeployment) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, dgd := range graphs {
		for _, one := range b.of(client.ObjectKeyFromObject(dgd)) {
			for _, pod := range one.pods {
				if p, has := to[dgd.UID]; !has || topology.PriorityOf(pod) > p {
					to[dgd.UID] = topology.PriorityOf(pod)
				}
			}
		}
	}
}
