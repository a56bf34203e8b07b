// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// versionEvery is the interval at which the version of the API server is read. An upgrade sends no event.
const versionEvery = time.Minute

// serverVersion polls the version of the API server, which determines the filters of the kube-scheduler.
type serverVersion struct {
	// server returns the version; nil: plans apply the filters of the newest release that Trellis knows.
	server discovery.ServerVersionInterfaceWithContext
	clock  clock.Clock
	// set applies the version.
	set func(version string)
}

// watch reads the version before it returns, and then every versionEvery until ctx ends.
func (v *serverVersion) watch(ctx context.Context) {
	if v.server == nil {
		return
	}
	v.ask(ctx)
	go func() {
		for {
			timer := v.clock.NewTimer(versionEvery)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C():
				v.ask(ctx)
			}
		}
	}()
}

func (v *serverVersion) ask(ctx context.Context) {
	version, err := v.server.ServerVersionWithContext(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "asking the API server for its version; it is tried again")
		return
	}
	v.set(version.GitVersion)
}
