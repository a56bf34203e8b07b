// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	asked "github.com/trellis-k8s/trellis/internal/capacity"
	capacitycontroller "github.com/trellis-k8s/trellis/internal/controller/capacity"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/record"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// DefaultCapacityMaxPods is the default for the maximum number of pods for which capacity is requested at once.
const DefaultCapacityMaxPods = 64

// addCapacityFlags adds the flags for capacity requests.
func (o *Options) addCapacityFlags(f *pflag.FlagSet) {
	c := &o.Capacity
	f.StringSliceVar(&c.Kinds, "capacity-requests", nil, "how autoscalers are asked for nodes when gangs wait: "+strings.Join(asked.Kinds,
		", ")+"; empty: they are not")
	f.StringVar(&c.Preset, "capacity-default", asked.KindNone, "how nodes are requested for deployments without the annotation "+
		asked.AnnotationKind)
	f.IntVar(&c.MaxPods, "capacity-max-pods", DefaultCapacityMaxPods,
		"how many pods capacity is requested for at the same time; none is requested for a gang of more pods")
	f.StringArrayVar(&o.nodeShapes, "node-shapes", nil,
		"resources that pods can use on a node that an autoscaler can add, e.g. cpu=190,memory=1900Gi,nvidia.com/gpu=8; "+
			"repeat it for each kind of node. No node is requested for pods that fit none of them")
	f.StringSliceVar(&c.NewNodeLabels, "new-node-labels", asked.NewNodeLabels,
		"node labels whose possible values on a new node an autoscaler knows")
	f.StringVar(&c.Image, "placeholder-image", asked.PlaceholderImage, "what placeholders run")
}

// completeCapacity checks the flags for capacity requests.
func (o *Options) completeCapacity() error {
	c := &o.Capacity
	for _, kind := range c.Kinds {
		if !slices.Contains(asked.Kinds, kind) {
			return fmt.Errorf("--capacity-requests=%s: use some of %s", kind, strings.Join(asked.Kinds, ", "))
		}
	}
	if c.Preset != "" && c.Preset != asked.KindNone && !slices.Contains(c.Kinds, c.Preset) {
		return fmt.Errorf("--capacity-default=%s: use %s, or one of --capacity-requests", c.Preset, asked.KindNone)
	}
	if len(c.Kinds) > 0 && c.MaxPods <= 0 {
		return fmt.Errorf("--capacity-max-pods=%d: use a positive number, e.g. %d", c.MaxPods, DefaultCapacityMaxPods)
	}
	for _, label := range c.NewNodeLabels {
		if problems := utilvalidation.IsQualifiedName(label); len(problems) > 0 {
			return fmt.Errorf("--new-node-labels=%s: %s", label, strings.Join(problems, "; "))
		}
	}
	c.Shapes = nil
	for _, text := range o.nodeShapes {
		shape, err := asked.ParseShape(text)
		if err != nil {
			return fmt.Errorf("--node-shapes: %w", err)
		}
		c.Shapes = append(c.Shapes, shape)
	}
	return nil
}

// asker requests capacity from autoscalers; nil if the flags disable capacity requests.
type asker struct {
	*capacitycontroller.Reconciler
	changed chan event.GenericEvent
}

func newAsker(mgr ctrl.Manager, writer client.Client, o Options, results *scheduler.Results, promises *quota.Promises) *asker {
	if len(o.Capacity.Kinds) == 0 {
		return nil
	}
	a := &asker{changed: make(chan event.GenericEvent, 1), Reconciler: &capacitycontroller.Reconciler{
		Client: writer, Results: results, Recorder: record.Bounded(mgr.GetEventRecorder("trellis")), Namespace: o.Namespace, Options: o.Capacity,
		Clock:    clock.RealClock{},
		Promises: promises,
	}}
	results.OnChange(func() {
		select {
		case a.changed <- event.GenericEvent{}:
		default: // a pending event already covers all deployments
		}
	})
	return a
}

// clear returns the function for scheduler.Options.Clear.
func (a *asker) clear() func(ctx context.Context, graph types.UID, hosts []string) {
	if a == nil {
		return nil
	}
	return a.Clear
}

func (a *asker) setUp(mgr ctrl.Manager, loop *scheduler.Scheduler, providers *provider.Registry, o Options) error {
	if a == nil {
		return nil
	}
	a.Hosts = loop
	return a.SetupWithManager(mgr, providers, a.changed, o.retries)
}
