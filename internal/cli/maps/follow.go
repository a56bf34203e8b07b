// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topologies"
)

const (
	// perSecond is the maximum number of drawings per second, in a busy cluster.
	perSecond = 2
	// lookEvery is the interval at which a served map checks whether the cluster serves Grove's ClusterTopologyBindings.
	lookEvery = 10 * time.Second
)

// errSlow reports that the informers did not receive their lists in time.
var errSlow = errors.New("watching the cluster: the API server did not list everything within a minute; see whether kubectl get pods -A " +
	"answers")

// follow serves the map, and draws it again whenever a shown object changes.
func (o *options) follow(ctx context.Context) error {
	log.SetLogger(logr.Discard()) // otherwise informers warn after half a minute about a missing logger
	c, namespace, err := cli.NewClient(o.config)
	if err != nil {
		return err
	}
	snapshot, err := live.Read(ctx, c)
	if err != nil {
		return err
	}
	if err := snapshot.Complete(); err != nil {
		return fmt.Errorf("--serve watches the whole cluster: %w", err)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	kinds := followedKinds(snapshot)
	informers, changed, err := watch(ctx, config, kinds, o.lookEvery, time.Minute, fail)
	if err != nil {
		return err
	}
	reader := newFollowing(c, informers, kinds, o.lookEvery)
	s := NewServer()
	if err := o.refresh(ctx, s, reader, namespace, o.ErrOut); err != nil {
		return err
	}
	group, following := errgroup.WithContext(ctx)
	group.Go(func() error { return s.listen(following, o.port, o.ErrOut) })
	group.Go(func() error {
		limiter := rate.NewLimiter(perSecond, 1)
		for {
			select {
			case <-following.Done():
				return nil
			case <-changed:
			}
			if err := limiter.Wait(following); err != nil {
				return nil //nolint:nilerr // the end was asked for
			}
			if err := o.refresh(following, s, reader, namespace, io.Discard); err != nil {
				fmt.Fprintln(o.ErrOut, "The map stays as it was:", err) // a file may be incomplete while it is being written
			}
		}
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if why := context.Cause(ctx); errors.As(why, new(*forbidden)) {
		return why
	}
	return nil
}

// forbidden reports that the user may not watch a kind. Without this right, objects of the kind would be listed only once, so the map would
// not follow the cluster.
type forbidden struct{ err error }

// Error implements error.
func (f *forbidden) Error() string {
	return fmt.Sprintf("--serve watches the whole cluster: %v; ask for a ClusterRole with this right", f.err)
}

// refresh draws the cluster. It reads the operator's Lease for each drawing instead of watching it, because the Lease is renewed
// continually, and a renewal must not trigger a drawing.
func (o *options) refresh(ctx context.Context, s *Server, c *following, namespace string, warnings io.Writer) error {
	source, err := o.readCluster(ctx, c, namespace)
	if err != nil {
		return err
	}
	if source.Operator, err = live.ReadHeartbeat(ctx, c.Client); err != nil {
		return err
	}
	m, err := Build(source, warnings)
	if err != nil {
		return err
	}
	return s.Put(m)
}

// watch keeps the objects of the given kinds in memory, stripped as in the operator's cache, and reports changes. If the user may not watch
// a kind, the cache calls fail, even after watch has returned. every is the interval at which the cache checks whether the cluster serves
// Grove's ClusterTopologyBindings, which are read as ClusterTopologies. patience limits the wait for the first lists.
func watch(ctx context.Context, config *rest.Config, kinds []client.Object, every, patience time.Duration, fail context.CancelCauseFunc) (
	cache.Cache, <-chan struct{}, error,
) {
	informers, err := newCache(config, every, fail)
	if err != nil {
		return nil, nil, err
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a change is already pending
		}
	}
	for _, o := range kinds {
		informer, err := informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, nil, cli.Explain(err, fmt.Sprintf("watching %T", o))
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
		}); err != nil {
			return nil, nil, fmt.Errorf("watching %T: %w", o, err)
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context
	waiting, stop := context.WithTimeoutCause(ctx, patience, errSlow)
	defer stop()
	if !informers.WaitForCacheSync(waiting) {
		return nil, nil, context.Cause(waiting)
	}
	return informers, changed, nil
}

// newCache creates the cache that watch uses.
func newCache(config *rest.Config, every time.Duration, fail context.CancelCauseFunc) (cache.Cache, error) {
	scheme, err := cli.NewScheme()
	if err != nil {
		return nil, err
	}
	o := cache.Options{
		Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Transform: scheduler.StripPod}, &corev1.Node{}: {Transform: scheduler.StripNode},
		},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				fail(&forbidden{err})
			}
		},
	}
	of, err := cache.New(config, o)
	if err != nil {
		return nil, err
	}
	return topologies.NewCache(of, config, o, every)
}
