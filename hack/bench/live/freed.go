// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Crowd is a full cluster with graphs that wait, each with one gang that needs a whole rack. The holder occupies the only rack that can be
// freed.
type Crowd struct {
	cluster *Cluster
	size    int
	holder  string
	// waiting are the waiting graphs in the order in which they are to be placed.
	waiting []string
	// filler are the pods that occupy the other racks.
	filler []*corev1.Pod
	pods   *pods
}

// Freed is the result of freeing one rack.
type Freed struct {
	// Took is the time from the end of the holder's last pod until the gates of all pods of the next graph were open.
	Took time.Duration
	// Plans is the number of the operator's plans from before the holder's deletion until after the release; Later is the number of plans
	// after that, until it plans no more.
	Plans, Later float64
}

// Crowd fills the cluster and creates that number of waiting graphs.
func (c *Cluster) Crowd(ctx context.Context, graphs int) (*Crowd, error) {
	w := &Crowd{cluster: c, size: c.shape.HostsPerRack, holder: "holder-0000"}
	var err error
	if w.filler, err = c.occupy(ctx, "filler", hall.GPUs, hostsBut(c.shape, 0)...); err != nil {
		return nil, err
	}
	if w.pods, err = c.follow(ctx); err != nil {
		return nil, err
	}
	if err := c.create(ctx, named(packed(c.shape, 1, w.size)[0], w.holder)); err != nil {
		return nil, err
	}
	if err := c.judgeGang(ctx, w.pods, w.holder, w.size, w.filler); err != nil {
		return nil, err
	}
	names := make([]string, graphs) // the order of names differs from that of creation
	for i, n := range rand.New(rand.NewPCG(1, 1)).Perm(graphs) {
		names[i] = fmt.Sprintf("waits-%04d", n)
	}
	if err := c.create(ctx, named(packed(c.shape, graphs, w.size)[0], names...)); err != nil {
		return nil, err
	}
	if err := w.pods.until(ctx, "all pods exist", func() bool { return len(w.pods.byName) == len(w.filler)+w.size*(1+graphs) }); err != nil {
		return nil, err
	}
	if err := c.untilWaiting(ctx, sandbox.DefaultManager, graphs); err != nil {
		return nil, err
	}
	return w, w.order(ctx)
}

// Close ends the watch.
func (w *Crowd) Close() { w.pods.events.Stop() }

func named(objects []client.Object, names ...string) []client.Object {
	for i, name := range names {
		objects[i].SetName(name)
	}
	return objects
}

// order determines which graph is next: at equal priority and in one namespace the oldest, and within one second the first by name.
func (w *Crowd) order(ctx context.Context) error {
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := w.cluster.c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b nvidiav1beta1.DynamoGraphDeployment) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range list.Items {
		if list.Items[i].Name != w.holder {
			w.waiting = append(w.waiting, list.Items[i].Name)
		}
	}
	return nil
}

// Free deletes the holder and waits for the release of the next graph, which becomes the next holder.
func (w *Crowd) Free(ctx context.Context) (Freed, error) {
	next := w.waiting[0]
	plans, err := w.cluster.untilSteady(ctx)
	if err != nil {
		return Freed{}, err
	}
	before, err := w.versions(ctx, next)
	if err != nil {
		return Freed{}, err
	}
	holder := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.holder}}
	if err := w.cluster.c.Delete(ctx, holder, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return Freed{}, err
	}
	took, err := w.untilReleased(ctx, next)
	if err != nil {
		return Freed{}, err
	}
	now, err := w.cluster.metric(ctx, sandbox.DefaultManager, plansMetric)
	if err != nil {
		return Freed{}, err
	}
	after, err := w.versions(ctx, next)
	if err != nil {
		return Freed{}, err
	}
	if err := untouched(before, after); err != nil {
		return Freed{}, fmt.Errorf("while %s was released: %w", next, err)
	}
	if err := w.cluster.judgeGang(ctx, w.pods, next, w.size, w.filler); err != nil {
		return Freed{}, err
	}
	w.holder, w.waiting = next, w.waiting[1:]
	last, err := w.cluster.untilSteady(ctx)
	return Freed{Took: took, Plans: now - plans, Later: last - now}, err
}

// untilReleased waits until the next graph is released, and checks that no other graph is.
func (w *Crowd) untilReleased(ctx context.Context, next string) (time.Duration, error) {
	var freed, opened time.Time
	wrong := ""
	err := w.pods.until(ctx, next+" is released", func() bool {
		if freed.IsZero() && len(w.pods.of(w.holder)) == 0 {
			freed = time.Now()
		}
		for _, pod := range w.pods.byName {
			if name := pod.Labels[render.LabelGraph]; name != "" && name != w.holder && name != next && !render.GateClosed(pod) {
				wrong = name
			}
		}
		if released(w.pods.of(next), w.size) {
			opened = time.Now()
		}
		return wrong != "" || !opened.IsZero()
	})
	switch {
	case err != nil:
		return 0, err
	case wrong != "":
		return 0, fmt.Errorf("%s was released, and %s is next", wrong, next)
	case freed.IsZero():
		return 0, fmt.Errorf("%s was released before the last pod of %s was gone", next, w.holder)
	}
	return opened.Sub(freed), nil
}

// state is the name and the version of an object.
type state struct{ name, version string }

// versions returns the state of all objects of waiting graphs except the next one.
func (w *Crowd) versions(ctx context.Context, next string) (map[types.UID]state, error) {
	out := map[types.UID]state{}
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Service"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), eventsv1.SchemeGroupVersion.WithKind("Event"),
		{Group: "trellis.dev", Version: "v1alpha1", Kind: "ScalingGroup"}, {Group: "nvidia.com", Version: "v1beta1",
			Kind: "DynamoGraphDeployment"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.cluster.c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing every %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if strings.HasPrefix(o.Name, "waits-") && !strings.HasPrefix(o.Name, next) && !strings.HasPrefix(o.Name, w.holder) {
				out[o.UID] = state{kind.Kind + " " + o.Name, o.ResourceVersion}
			}
		}
	}
	return out, nil
}

// untouched returns an error if an object was written, created or deleted.
func untouched(before, after map[types.UID]state) error {
	for uid, was := range before {
		if now, there := after[uid]; !there {
			return fmt.Errorf("%s was deleted", was.name)
		} else if now.version != was.version {
			return fmt.Errorf("%s was written", was.name)
		}
	}
	for uid, now := range after {
		if _, there := before[uid]; !there {
			return fmt.Errorf("%s was made", now.name)
		}
	}
	return nil
}
