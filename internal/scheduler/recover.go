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
// not bound yet own their capacity, and then what is still gated of their gangs.
func (s *Scheduler) recoverAll(ctx context.Context) error {
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := s.objects.reader.List(ctx, graphs); err != nil {
		return fmt.Errorf("listing graphs: %w", err)
	}
	for _, reserve := range []func(gang.Observation){s.ledger.reserveReleased, s.ledger.reserveRest} {
		for i := range graphs.Items {
			dgd := &graphs.Items[i]
			err := s.ledger.recovered(func() (gang.Observation, error) { return s.objects.observe(ctx, dgd) }, reserve)
			if err != nil {
				return fmt.Errorf("reading graph %s/%s: %w", dgd.Namespace, dgd.Name, err)
			}
		}
	}
	return nil
}

// reserveReleased reserves for pods that an earlier leader released and that are not bound yet.
func (l *ledger) reserveReleased(o gang.Observation) { gang.Reserve(l.cluster, o) }

// reserveRest reserves for what is still gated of gangs of which pods are released.
func (l *ledger) reserveRest(o gang.Observation) {
	for id, of := range gang.ReserveRest(l.cluster, o) {
		l.pods.change(id, func(r *released) { r.begun, r.gang = true, of })
	}
}
