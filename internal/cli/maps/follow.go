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
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// perSecond bounds how often a busy cluster is drawn.
const perSecond = 2

// errSlow states that the informers did not get their lists.
var errSlow = errors.New("watching the cluster: the API server did not list everything within a minute; see whether kubectl get pods -A " +
	"answers")

// follow serves the map, drawn again whenever something it shows changes.
func (o *options) follow(ctx context.Context) error {
	log.SetLogger(logr.Discard()) // otherwise informers complain after half a minute that there is none
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
	bindings := !snapshot.Lacks(live.Bindings)
	cached, changed, err := watch(ctx, config, bindings, time.Minute, fail)
	if err != nil {
		return err
	}
	informers := unpaged{cached, snapshot.Lacks}
	s := NewServer()
	if err := o.refresh(ctx, s, c, informers, namespace, o.ErrOut); err != nil {
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
			if err := o.refresh(following, s, c, informers, namespace, io.Discard); err != nil {
				fmt.Fprintln(o.ErrOut, "The map stays as it was:", err) // a file may be in the middle of a change
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

// forbidden is that the user may not watch a kind. Without that right a list is read once and never again, so the map would not follow.
type forbidden struct{ err error }

// Error implements error.
func (f *forbidden) Error() string {
	return fmt.Sprintf("--serve watches the whole cluster: %v; ask for a ClusterRole with this right", f.err)
}

// refresh draws what the informers have. The operator's Lease is read each time: it is renewed all the while, which is no reason to draw.
func (o *options) refresh(ctx context.Context, s *Server, c, informers client.Reader, namespace string, warnings io.Writer) error {
	source, err := o.readCluster(ctx, informers, namespace)
	if err != nil {
		return err
	}
	if source.Operator, err = live.ReadHeartbeat(ctx, c); err != nil {
		return err
	}
	m, err := Build(source, warnings)
	if err != nil {
		return err
	}
	return s.Put(m)
}

// watch keeps everything that a map is made of in memory, stripped as the operator keeps it, and reports changes. It ends the context by
// fail when the user may not watch a kind, which may turn out only later. Bindings of Grove are
// among that if the user may read them and the cluster serves them. patience bounds the first lists.
func watch(ctx context.Context, config *rest.Config, bindings bool, patience time.Duration, fail context.CancelCauseFunc) (
	cache.Cache, <-chan struct{}, error,
) {
	scheme, err := cli.NewScheme()
	if err != nil {
		return nil, nil, err
	}
	informers, err := cache.New(config, cache.Options{
		Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Transform: scheduler.StripPod}, &corev1.Node{}: {Transform: scheduler.StripNode},
		},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				fail(&forbidden{err})
			}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a change is known already
		}
	}
	objects := []client.Object{
		&corev1.Node{}, &corev1.Pod{}, &grovev1alpha1.ClusterTopology{}, &schedulingv1.PriorityClass{}, &trellisv1alpha1.ScalingGroup{},
		&nvidiav1beta1.DynamoGraphDeployment{},
	}
	if bindings {
		objects = append(objects, &topologybinding.Binding{})
	}
	for _, o := range objects {
		informer, err := informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if _, is := o.(*topologybinding.Binding); is && meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, nil, cli.Explain(err, fmt.Sprintf("watching %T", o))
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
		}); err != nil {
			return nil, nil, fmt.Errorf("watching %T: %w", o, err)
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context, and not before
	waiting, stop := context.WithTimeoutCause(ctx, patience, errSlow)
	defer stop()
	if !informers.WaitForCacheSync(waiting) {
		return nil, nil, context.Cause(waiting)
	}
	return informers, changed, nil
}

// unpaged reads from memory, where there are no pages: a cache knows no limit, and states that there is more even when there is not.
type unpaged struct {
	client.Reader
	// lacks reports whether the user may not read a kind. Without the right a cache would wait for it.
	lacks func(kind string) bool
}

// List implements client.Reader.
func (u unpaged) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind := ""
	switch list.(type) {
	case *topologybinding.BindingList:
		kind = live.Bindings
	case *trellisv1alpha1.GraphPlacementList:
		kind = live.Placements
	}
	if kind != "" && u.lacks(kind) {
		return apierrors.NewForbidden(schema.ParseGroupResource(kind), "", nil)
	}
	all := (&client.ListOptions{}).ApplyOptions(options)
	all.Limit, all.Continue = 0, ""
	if err := u.Reader.List(ctx, list, all); err != nil {
		return err
	}
	list.SetContinue("")
	return nil
}
