// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// recoverAll rebuilds the reservations and holds of all graphs before anything is planned: first for pods that an earlier leader released
// and that are not bound yet, then for the gated pods of their gangs, and then for the missing pods of recorded gangs. It also
// continues the recorded moves of replicas.
func (s *Scheduler) recoverAll(ctx context.Context) error {
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := s.objects.reader.List(ctx, graphs); err != nil {
		return fmt.Errorf("listing graphs: %w", err)
	}
	for _, reserve := range []func(gang.Observation){
		s.ledger.reserveReleased, s.ledger.reserveRest, s.ledger.holdRecorded, s.ledger.freer.resume,
	} {
		for i := range graphs.Items {
			dgd := &graphs.Items[i]
			err := s.ledger.recovered(func() (gang.Observation, error) {
				o, _, err := s.observe(ctx, dgd)
				return o, err
			}, reserve)
			if err != nil {
				return fmt.Errorf("reading graph %s/%s: %w", dgd.Namespace, dgd.Name, err)
			}
		}
	}
	return nil
}

// reserveReleased reserves capacity for the pods that an earlier leader released and that are not bound yet.
func (s *state) reserveReleased(o gang.Observation) { gang.Reserve(s.cluster, o) }

// reserveRest reserves capacity for the gated pods of gangs with released pods.
func (s *state) reserveRest(o gang.Observation) {
	for id, of := range gang.ReserveRest(s.cluster, o) {
		s.pods.change(id, func(r *released) { r.begun, r.gang = true, of })
	}
}

// holdRecorded holds the recorded hosts of missing and gated pods, which an earlier leader assigned. The holds end when the graph is
// planned, and at the latest after HoldFor.
func (s *state) holdRecorded(o gang.Observation) {
	until := s.clock.Now().Add(s.options.HoldFor)
	for _, one := range gang.RecordedPods(o) {
		if _, reserved := s.cluster.Reserved(string(one.UID)); !reserved || one.UID == "" {
			s.holdRecordedPod(client.ObjectKeyFromObject(o.DGD), one, until)
		}
	}
}
