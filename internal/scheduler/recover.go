// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// recoverAll rebuilds the reservations of every graph before anything is planned: pods that an earlier leader released and that are
// not bound yet own their capacity, and then what is still gated of their replicas.
func (s *Scheduler) recoverAll(ctx context.Context) error {
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := s.reader.List(ctx, graphs); err != nil {
		return fmt.Errorf("listing graphs: %w", err)
	}
	for _, reserve := range []func(gang.Observation){
		func(o gang.Observation) { gang.Reserve(s.cluster, o) },
		func(o gang.Observation) {
			for _, id := range gang.ReserveRest(s.cluster, o) {
				s.inFlight.begun[id] = true
			}
		},
	} {
		for i := range graphs.Items {
			if err := s.recoverGraph(ctx, &graphs.Items[i], reserve); err != nil {
				return fmt.Errorf("reading graph %s/%s: %w", graphs.Items[i].Namespace, graphs.Items[i].Name, err)
			}
		}
	}
	return nil
}

func (s *Scheduler) recoverGraph(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, reserve func(gang.Observation)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.observe(ctx, dgd)
	if err == nil {
		o.Idle = s.idle.ended
		reserve(o)
	}
	return err
}
