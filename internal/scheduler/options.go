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
	// DefaultReserveDomainFor is how long hosts of a domain stay reserved for a gang if reservations are enabled. DefaultReserveShare is
	// the largest share of a topology's nodes that may be reserved.
	DefaultReserveDomainFor = 30 * time.Minute
	DefaultReserveShare     = 0.1
	// DefaultHoldFor is how long the capacity of a lost replica is held for its successor (docs/placement.md#when-something-breaks).
	DefaultHoldFor = time.Minute
)

// Options are the options of the loop. The zero value has the defaults.
type Options struct {
	RequeueAfter, HoldFor time.Duration
	// ReserveDomainAfter is how long a gang waits before hosts are reserved for it, so that smaller gangs do not starve it; 0 or less:
	// hosts are reserved only while moves free them (RepackAfter). ReserveDomainFor is how long the hosts stay reserved.
	ReserveDomainAfter, ReserveDomainFor time.Duration
	// ReserveShare is the largest share of a topology's nodes that may be reserved, 0 < share <= 1. A gang that needs more nodes gets no
	// reservation.
	ReserveShare float64
	// RepackAfter is how long a gang waits before running replicas move to make space for it; 0: replicas move only when a user requests a
	// move. RepackMaxGPUs is the maximum number of GPUs that restart for one gang; 0: no limit. RepackRest is the time after a move of a
	// replica in which the replica does not move again; 0: repack.Rest.
	RepackAfter, RepackRest time.Duration
	RepackMaxGPUs           int64
	// Moves writes the annotations that request moves of replicas; nil: no replica moves.
	Moves client.Writer
	// MetricResources are the resources that the metrics by level count, such as nvidia.com/gpu. MetricGraphs is the maximum number of
	// graphs with metrics of their own.
	MetricResources []string
	MetricGraphs    int
	// IgnoredResources are the resources that the kube-scheduler ignores: names of resources, and names of resource groups.
	IgnoredResources []string
	// Leaving has the rules for nodes that are to be removed. The loop places nothing on these nodes.
	Leaving leaving.Rules
	// Mapper has the kinds that the API server serves; nil: the loop does not read kinds that the API server may not serve.
	Mapper meta.RESTMapper
	// Server returns the version of the API server; nil: plans apply the filters of the newest kube-scheduler release that Trellis knows.
	Server discovery.ServerVersionInterfaceWithContext
	Clock  clock.Clock
	// Namespace is the operator's namespace. Placeholders there take no capacity from other pods (package internal/capacity); "": there are
	// no placeholders.
	Namespace string
	// Clear deletes the placeholders of a deployment, by UID, and all placeholders on the hosts, before a gang of the deployment is
	// released to these hosts; nil: there are no placeholders.
	Clear func(ctx context.Context, graph types.UID, hosts []string)
	// Asks are the replicas that scaling groups want to create in place; nil: all replicas are created gated.
	Asks *Asks
	// Records writes the GraphPlacements; nil: places are not recorded.
	Records client.Client
	// Live reads past the cache, for Records. It is set if Records is set.
	Live client.Reader
	// Promises are the Workloads of Kueue for which places are reserved before Kueue admits them; nil: none.
	Promises *quota.Promises
}

// isPlaceholder reports whether a pod is a placeholder, which takes no capacity from other pods: it is deleted before a gang is released to
// its node.
func (o *Options) isPlaceholder(pod *corev1.Pod) bool {
	return o.Namespace != "" && capacity.IsPlaceholder(pod, o.Namespace)
}
