// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// Defaults of Options.
const (
	// DefaultRequeueAfter is how long a released pod may be unschedulable before its gang is requeued
	// (docs/providers.md#when-a-gang-is-not-bound).
	DefaultRequeueAfter = 30 * time.Second
	// DefaultReserveDomainFor is how long hosts of a domain are reserved for a gang, where that is asked for, and DefaultReserveShare the
	// share of a topology's nodes that may be reserved.
	DefaultReserveDomainFor = 30 * time.Minute
	DefaultReserveShare     = 0.1
	// DefaultHoldFor is how long the capacity of a lost replica is held for its successor (docs/placement.md#when-something-breaks).
	DefaultHoldFor = time.Minute
)

// Options of the loop; the zero value is the default.
type Options struct {
	RequeueAfter, HoldFor time.Duration
	// ReserveDomainAfter is how long a gang that small ones would starve waits before hosts are reserved for it; 0 and less: none are.
	// ReserveDomainFor is how long they are reserved.
	ReserveDomainAfter, ReserveDomainFor time.Duration
	// ReserveShare is the largest share of a topology's nodes that is reserved, 0 < share <= 1. A gang that needs more gets no reservation.
	ReserveShare float64
	// RepackAfter is how long a gang waits until running replicas move so that it gets a place; 0: they move only when a user requests it.
	// RepackMaxGPUs is how many GPUs restart for one gang; 0: any number. RepackRest is how long a replica that moved does not move again; 0:
	// repack.Rest.
	RepackAfter, RepackRest time.Duration
	RepackMaxGPUs           int64
	// Moves writes the requests for that into pods; nil: no replica moves.
	Moves client.Writer
	// MetricResources are what the metrics by level count, such as nvidia.com/gpu; MetricGraphs is how many graphs have metrics of their own.
	MetricResources []string
	MetricGraphs    int
	// IgnoredResources are what the kube-scheduler ignores: names of resources, and groups of them.
	IgnoredResources []string
	// Leaving decides which nodes are to be removed. Nothing is placed on them.
	Leaving leaving.Rules
	// Mapper knows what the API server serves; nil: nothing that it may not serve is looked for.
	Mapper meta.RESTMapper
	// Server is asked for its version; nil: filters are those of the kube-scheduler of the newest release that is known.
	Server discovery.ServerVersionInterfaceWithContext
	Clock  clock.Clock
	// Namespace is the operator's own: placeholders there take nothing from anybody (package internal/capacity). "": there are none.
	Namespace string
	// Clear deletes the placeholders of a deployment, by UID, and those on hosts, before a gang of the deployment is released to them; nil:
	// there are none.
	Clear func(ctx context.Context, graph types.UID, hosts []string)
	// Asks are the replicas that are to be created in place; nil: all are created gated.
	Asks *Asks
	// Records writes the GraphPlacements; nil: where replicas are is not recorded.
	Records client.Client
	// Live reads past the cache what Records may have to know. It is there with Records.
	Live client.Reader
	// Promises are Workloads of Kueue whose place is reserved before they are admitted; nil for none.
	Promises *quota.Promises
}

// isPlaceholder reports whether a pod takes nothing from other pods: it is deleted before a gang is released to its node.
func (o *Options) isPlaceholder(pod *corev1.Pod) bool {
	return o.Namespace != "" && capacity.IsPlaceholder(pod, o.Namespace)
}
