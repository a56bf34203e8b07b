// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
)

// SwitchProvider restarts the control plane with the feature gates of another provider while everything else runs. It is for tests.
func (s *Sandbox) SwitchProvider(ctx context.Context, provider Provider) error {
	s.state.Provider = provider
	for _, name := range []string{apiServer, controllerManager, scheduler} {
		if err := s.StopComponent(ctx, name); err != nil {
			return fmt.Errorf("stopping %s: %w", name, err)
		}
	}
	for _, name := range []string{apiServer, controllerManager, scheduler} {
		if err := s.StartComponent(ctx, name); err != nil {
			return err
		}
	}
	return s.save()
}
