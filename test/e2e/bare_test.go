// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
)

// lazyCluster is brought up for the first test that asks, and ends with the last test.
type lazyCluster struct {
	once sync.Once
	environment
	server *conversion.Server
	err    error
}

// bareClusters have everything installed and no operator process: tests run operators in their own process, each for one namespace.
var bareClusters = map[sandbox.Provider]*lazyCluster{sandbox.Gates: {}, sandbox.PodGroup: {}}

func bare(t *testing.T, provider sandbox.Provider) environment {
	t.Helper()
	b := bareClusters[provider]
	b.once.Do(func() { b.err = b.up(context.Background(), provider) })
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.environment
}

func (b *lazyCluster) up(ctx context.Context, provider sandbox.Provider) (err error) {
	b.cluster, err = sandbox.Up(ctx, sandbox.Options{
		Name: "bare", Dir: filepath.Join(scratch, "bare-"+string(provider)), Shape: sandbox.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1}, Provider: provider, Operator: true,
	})
	if err != nil {
		return err
	}
	b.c, b.server = newClient(b.cluster), conversion.Serve()
	return errors.Join(b.cluster.StopManager(ctx, sandbox.DefaultManager), b.convertBy(ctx, b.server))
}

func tearDownBare(ctx context.Context) (err error) {
	for _, b := range bareClusters {
		if b.server != nil {
			b.server.Close()
		}
		if b.cluster != nil {
			err = errors.Join(err, b.cluster.Down(ctx))
		}
	}
	return err
}
