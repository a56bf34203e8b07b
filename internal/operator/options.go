// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	capacitycontroller "github.com/trellis-k8s/trellis/internal/controller/capacity"
	"github.com/trellis-k8s/trellis/internal/controller/scalinggroup"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// Limits for the number of metric series.
const (
	maxGraphMetrics    = 10_000
	maxMetricResources = 8
)

// Options are the operator's settings.
type Options struct {
	// MetricsAddress and ProbeAddress are the addresses of metrics and probes, host:port; "0" disables metrics.
	MetricsAddress, ProbeAddress string
	// MetricsSecure serves metrics over HTTPS, to clients that may get the path /metrics. If it is false, metrics are served over plain
	// HTTP to everybody.
	MetricsSecure bool
	// MetricResources are the resources in the metrics by topology level. GraphMetrics is the maximum number of graphs with their own
	// metrics; 0 for none.
	MetricResources []string
	GraphMetrics    int
	// LeaderElect enables leader election, so that only one of several replicas of the operator is active.
	LeaderElect bool
	// Namespace is the operator's namespace.
	Namespace string
	// WatchNamespaces are the namespaces whose deployments are managed; empty for all.
	WatchNamespaces []string
	// Webhooks enables the admission webhooks, and Conversion the conversion webhook. Both are served on WebhookPort, with a certificate
	// for the Service WebhookService. The certificate's Secret is mounted at WebhookCertDir.
	Webhooks       bool
	Conversion     bool
	WebhookPort    int
	WebhookCertDir string
	WebhookService string
	// ShutdownDelay is the time for which the webhooks are still served after the operator is told to stop.
	ShutdownDelay time.Duration
	// QPS and Burst limit the requests to the API server.
	QPS   float32
	Burst int
	// MaxPodsPerGraph bounds the pods of one deployment: replicas x nodeCount, summed over its components.
	MaxPodsPerGraph int64
	// IgnoredResources are resources that the kube-scheduler ignores: resource names, or groups such as example.com. A group includes all
	// its resource names.
	IgnoredResources []string
	// ScalingUsers are the users who, in addition to the operator, may write replicas that a scaling adapter owns.
	ScalingUsers []string
	// Provider is the provider of deployments that name no provider; "auto" chooses a provider for each such deployment.
	Provider string
	// RequeueAfter, HoldFor, ReserveDomainAfter, ReserveDomainFor and ReserveShare are settings of the scheduler (see scheduler.Options).
	RequeueAfter, HoldFor, ReserveDomainAfter, ReserveDomainFor time.Duration
	ReserveShare                                                float64
	// GateAllPods creates the pods of every gang gated, even if the gang's place is known (docs/dev/architecture.md#created-in-place).
	GateAllPods bool
	// Leaving contains the taints, from a flag, that mark nodes for removal. MoveTimeout is the time for which a replica on such a node
	// waits for its successor.
	Leaving     leaving.Rules
	MoveTimeout time.Duration
	// EvictionResponder enables the responder to Evictions of lifecycle.k8s.io if the API server serves them.
	EvictionResponder bool
	// RepackAfter, RepackRest and RepackMaxGPUs are settings of the scheduler (see scheduler.Options).
	RepackAfter, RepackRest time.Duration
	RepackMaxGPUs           int64
	// Capacity contains the settings for capacity requests. nodeShapes contains the unparsed node shapes for these settings.
	Capacity   capacitycontroller.Options
	nodeShapes []string
	// Platform holds the addresses of the services that all graphs share.
	Platform render.Platform
	// LookEvery is the interval at which the operator checks which APIs the cluster serves; 0 for provider.DefaultLookEvery. Tests that
	// enable and disable APIs set it.
	LookEvery time.Duration
	// NewClient creates the client, for tests that watch the client's writes or make them fail; nil in production.
	NewClient client.NewClientFunc
	// former are the flags under their former names.
	former []*formerFlag
	// answerWithin sets webhook.Options.AnswerWithin in tests; 0 in production.
	answerWithin time.Duration
	// ownWritesWithin replaces the constant of the same name in tests; 0 in production.
	ownWritesWithin time.Duration
	// clock determines when the lease expires, in tests; nil in production.
	clock clock.PassiveClock
	// retries are the retry delays of the controllers, set in tests; zero in production.
	retries blocked.Retries
}

// AddFlags adds a flag for every setting, with its default.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "address of the metrics endpoint; 0 turns it off")
	f.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"serve metrics over HTTPS, to clients that may get the path /metrics; false: over plain HTTP, to all clients")
	f.StringSliceVar(&o.MetricResources, "metrics-resources", []string{"nvidia.com/gpu"},
		"resources that the metrics by topology level count, at most 8")
	f.IntVar(&o.GraphMetrics, "graph-metrics", 0, "how many graphs have metrics of their own, at most 10000; 0: none")
	f.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.BoolVar(&o.LeaderElect, "leader-elect", false, "run one active replica of several")
	f.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the operator's own namespace (default: $POD_NAMESPACE)")
	f.StringSliceVar(&o.WatchNamespaces, "watch-namespaces", nil,
		"namespaces whose deployments are managed (default: all); capacity is always counted cluster-wide")
	f.BoolVar(&o.Webhooks, "webhooks", true, "serve the admission webhooks")
	f.BoolVar(&o.Conversion, "conversion", true, "serve the conversion between API versions, needed to read or write the version that is "+
		"not stored")
	f.IntVar(&o.WebhookPort, "webhook-port", 9443, "port of the webhooks")
	f.StringVar(&o.WebhookCertDir, "webhook-cert-dir", "/tmp/trellis/serving-certs",
		"directory where the Secret of the webhooks' certificate is mounted")
	f.StringVar(&o.WebhookService, "webhook-service", "trellis-webhook-service",
		"name of the webhooks' Service, which the certificate is made for")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second,
		"how long the webhooks are served after shutdown was requested, until the API server calls another replica")
	f.Float32Var(&o.QPS, "kube-api-qps", 500, "requests per second to the API server")
	f.IntVar(&o.Burst, "kube-api-burst", 1000, "requests to the API server in one burst")
	f.StringSliceVar(&o.ScalingUsers, "scaling-users", nil,
		"users who may write the replicas of a deployment that a scaling adapter owns, besides the operator itself, "+
			"e.g. system:serviceaccount:dynamo:planner-serviceaccount")
	f.StringSliceVar(&o.IgnoredResources, "ignored-resources", nil,
		"resources that do not keep pods off nodes, as the kube-scheduler is configured: names, "+
			"e.g. example.com/gpumem, and groups, e.g. example.com, for all names in one")
	f.Int64Var(&o.MaxPodsPerGraph, "max-pods-per-graph", podlimit.Default,
		"how many pods one deployment may have: replicas x nodeCount, summed over its components")
	f.StringVar(&o.Provider, "provider", specs.Auto, "provider of deployments that name none: "+strings.Join(specs.Names(), ", "))
	f.DurationVar(&o.RequeueAfter, "requeue-after", scheduler.DefaultRequeueAfter,
		"how long a released pod may be unschedulable before its gang is evicted and requeued")
	f.StringVar(&o.Platform.NATS, "nats-server", "", "address of NATS for the pods of all graphs, as NATS_SERVER")
	f.StringVar(&o.Platform.ETCD, "etcd-endpoints", "", "endpoints of etcd for the pods of all graphs, as ETCD_ENDPOINTS")
	f.StringVar(&o.Platform.ModelExpress, "model-express-url", "", "address of Model Express for the pods of all graphs, as MODEL_EXPRESS_URL")
	f.StringVar(&o.Platform.Prometheus, "prometheus-endpoint", "", "address of Prometheus for the pods of all graphs, as PROMETHEUS_ENDPOINT")
	f.DurationVar(&o.HoldFor, "hold-for", scheduler.DefaultHoldFor, "how long the capacity of a lost replica is held for its successor")
	f.DurationVar(&o.ReserveDomainAfter, "reserve-domain-after", 0,
		"how long a gang waits before the hosts it needs in one domain are reserved for it, e.g. 5m; 0 and less: never")
	f.DurationVar(&o.ReserveDomainFor, "reserve-domain-for", scheduler.DefaultReserveDomainFor, "how long these hosts are reserved")
	f.Float64Var(&o.ReserveShare, "reserve-share", scheduler.DefaultReserveShare,
		"the largest share of a topology's nodes that is reserved, more than 0 and at most 1; a gang that needs more gets no reservation")
	f.BoolVar(&o.GateAllPods, "gate-all-pods", false,
		"create the pods of every gang gated, also where a gang's place is known and they can be created there without the gate")
	f.DurationVar(&o.MoveTimeout, "move-timeout", scalinggroup.DefaultMoveTimeout,
		"how long a replica that is to leave its nodes waits for its successor before it goes without one")
	f.BoolVar(&o.EvictionResponder, "eviction-responder", false,
		"move replicas for Evictions of lifecycle.k8s.io/v1alpha1, if the API server serves them at the start of the operator")
	f.DurationVar(&o.RepackAfter, "repack-after", 0,
		"how long a gang waits until running replicas of deployments with the annotation "+render.AnnotationMayMove+" move so that it gets "+
			"a place, e.g. 5m; 0: never")
	f.Int64Var(&o.RepackMaxGPUs, "repack-max-gpus", 0, "how many GPUs restart at most so that one gang gets a place; 0: any number")
	f.DurationVar(&o.RepackRest, "repack-rest", repack.Rest, "how long a replica that has moved for a gang does not move again")
	f.StringSliceVar(&o.Leaving.Taints, "leaving-taints", nil,
		"keys of taints on nodes that are to be removed, besides "+strings.Join(leaving.DefaultTaints, " and ")+", at most 16")
	o.addCapacityFlags(f)
	o.addFormer(f)
}

// Complete checks the flags, and sets the settings that follow from other settings.
func (o *Options) Complete() error {
	if o.Namespace == "" {
		return errors.New("the operator's namespace is not known: set --namespace or the environment variable POD_NAMESPACE")
	}
	for i, ns := range o.WatchNamespaces {
		o.WatchNamespaces[i] = strings.TrimSpace(ns)
		if o.WatchNamespaces[i] == "" {
			return errors.New("--watch-namespaces has an empty name; write it as --watch-namespaces=team-a,team-b or leave it out")
		}
	}
	for _, former := range o.former {
		if err := former.check(); err != nil {
			return err
		}
	}
	for _, entry := range o.IgnoredResources {
		if !nameOrGroup(entry) {
			return fmt.Errorf("--ignored-resources=%s: use the name of a resource, e.g. example.com/gpumem, or a group, e.g. example.com", entry)
		}
	}
	o.Provider = cmp.Or(o.Provider, specs.Auto)
	if err := o.checkBounds(); err != nil {
		return err
	}
	return o.completeCapacity()
}

// checkBounds returns an error for a value outside its bounds.
func (o *Options) checkBounds() error {
	if !slices.Contains(specs.Names(), o.Provider) {
		return fmt.Errorf("--provider=%s: use one of %s", o.Provider, strings.Join(specs.Names(), ", "))
	}
	if o.MaxPodsPerGraph <= 0 {
		return fmt.Errorf("--max-pods-per-graph=%d: use a positive number, e.g. %d", o.MaxPodsPerGraph, podlimit.Default)
	}
	if o.RequeueAfter <= 0 || o.HoldFor <= 0 || o.ReserveDomainFor <= 0 {
		return errors.New("--requeue-after, --hold-for and --reserve-domain-for must be positive durations, e.g. 30s")
	}
	if err := o.checkMoves(); err != nil {
		return err
	}
	if o.ReserveShare <= 0 || o.ReserveShare > 1 {
		return errors.New("--reserve-share must be more than 0 and at most 1, e.g. 0.1")
	}
	if o.GraphMetrics < 0 || o.GraphMetrics > maxGraphMetrics {
		return fmt.Errorf("--graph-metrics=%d: use a number from 0 to %d", o.GraphMetrics, maxGraphMetrics)
	}
	if len(o.MetricResources) > maxMetricResources {
		return fmt.Errorf("--metrics-resources names %d resources, and at most %d are counted", len(o.MetricResources), maxMetricResources)
	}
	if o.ShutdownDelay < 0 {
		return errors.New("--shutdown-delay must not be negative")
	}
	return nil
}

// maxLeavingTaints bounds the number of taints that the operator compares with the taints of each node.
const maxLeavingTaints = 16

func (o *Options) checkMoves() error {
	if o.MoveTimeout <= 0 {
		return errors.New("--move-timeout must be a positive duration, e.g. 10m")
	}
	if o.RepackRest <= 0 {
		return errors.New("--repack-rest must be a positive duration, e.g. 1h")
	}
	if o.RepackAfter < 0 || o.RepackMaxGPUs < 0 {
		return errors.New("--repack-after and --repack-max-gpus must not be negative, e.g. --repack-after=5m --repack-max-gpus=64")
	}
	if len(o.Leaving.Taints) > maxLeavingTaints {
		return fmt.Errorf("--leaving-taints names %d taints, and at most %d are looked for", len(o.Leaving.Taints), maxLeavingTaints)
	}
	for _, key := range o.Leaving.Taints {
		if len(utilvalidation.IsQualifiedName(key)) > 0 {
			return fmt.Errorf("--leaving-taints=%s: use the key of a taint, e.g. example.com/maintenance", key)
		}
	}
	return nil
}

// nameOrGroup reports whether a text is the name of an extended resource, such as example.com/gpumem, or a group, such as example.com.
func nameOrGroup(text string) bool {
	if strings.Contains(text, "/") {
		return len(utilvalidation.IsQualifiedName(text)) == 0
	}
	return len(utilvalidation.IsDNS1123Subdomain(text)) == 0
}
