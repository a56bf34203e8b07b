// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// followedKinds returns the kinds whose changes trigger a new drawing. It includes GraphPlacements if the user may list them.
func followedKinds(snapshot *live.Snapshot) []client.Object {
	kinds := []client.Object{
		&corev1.Node{}, &corev1.Pod{}, &grovev1alpha1.ClusterTopology{}, &schedulingv1.PriorityClass{}, &trellisv1alpha1.ScalingGroup{},
		&nvidiav1beta1.DynamoGraphDeployment{},
	}
	if !snapshot.Lacks(live.Placements) {
		kinds = append(kinds, &trellisv1alpha1.GraphPlacement{})
	}
	return kinds
}

// following is a client that lists the followed kinds from memory. It requests any other list from the API server at most once per
// interval, because a busy cluster is drawn twice per second. Its ClusterTopologies include Grove's ClusterTopologyBindings. Only one
// goroutine may use it at a time.
type following struct {
	client.Client
	informers cache.Cache
	followed  map[string]bool
	interval  time.Duration
	pages     map[string]stored
}

// stored is a list that the API server has sent, with the time of the request.
type stored struct {
	list client.ObjectList
	read time.Time
}

var _ discovery.ServerVersionInterfaceWithContext = &following{}

// newFollowing creates a client for a followed cluster. informers must contain the given kinds.
func newFollowing(c client.Client, informers cache.Cache, kinds []client.Object, interval time.Duration) *following {
	f := &following{Client: c, informers: informers, followed: map[string]bool{}, interval: interval, pages: map[string]stored{}}
	for _, kind := range kinds {
		f.followed[fmt.Sprintf("%TList", kind)] = true
	}
	return f
}

// List implements client.Reader. Later lists may share the items of this list, so callers must not change them.
func (f *following) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	kind := fmt.Sprintf("%T", list)
	switch _, isBinding := list.(*topologybinding.BindingList); {
	case isBinding: // ClusterTopologies include them
		return &meta.NoKindMatchError{GroupKind: topologybinding.Kind.GroupKind(), SearchedVersions: []string{topologybinding.Kind.Version}}
	case f.followed[kind]:
		options.Limit, options.Continue = 0, "" // a cache supports no limit, and reports further items that do not exist
		err := f.informers.List(ctx, list, options)
		list.SetContinue("")
		return err
	}
	maps.DeleteFunc(f.pages, func(_ string, s stored) bool { return time.Since(s.read) >= f.interval })
	key := strings.Join([]string{kind, options.Namespace, options.AsListOptions().String()}, " ")
	if kept, is := f.pages[key]; is {
		reflect.ValueOf(list).Elem().Set(reflect.ValueOf(kept.list).Elem())
		return nil
	}
	read := time.Now()
	if err := f.Client.List(ctx, list, options); err != nil {
		return err
	}
	f.pages[key] = stored{list, read}
	return nil
}

// ServerVersionWithContext implements discovery.ServerVersionInterfaceWithContext.
func (f *following) ServerVersionWithContext(ctx context.Context) (*version.Info, error) {
	server, is := f.Client.(discovery.ServerVersionInterfaceWithContext)
	if !is {
		return &version.Info{}, nil
	}
	return server.ServerVersionWithContext(ctx)
}
