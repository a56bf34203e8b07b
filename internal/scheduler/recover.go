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
// not bound yet own their capacity.
func (s *Scheduler) recoverAll(ctx context.Context) error {
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := s.reader.List(ctx, graphs); err != nil {
		return fmt.Errorf("listing graphs: %w", err)
	}
	for i := range graphs.Items {
		s.mu.Lock()
		o, err := s.observe(ctx, &graphs.Items[i])
		if err == nil {
			o.Idle = s.idle.ended
			gang.Reserve(s.cluster, o)
		}
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("reading graph %s/%s: %w", graphs.Items[i].Namespace, graphs.Items[i].Name, err)
		}
	}
	return nil
}
