// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// options are the operator's flags.
type options struct {
	metricsAddress, probeAddress string
	leaderElect                  bool
	namespace                    string
	watchNamespaces              []string
	webhooks                     bool
	webhookPort                  int
	webhookCertDir               string
	webhookService               string
	qps                          float32
	burst                        int
	takeBackAfter, holdFor       time.Duration
}

func newGoFlags() *flag.FlagSet { return flag.NewFlagSet("trellis-manager", flag.ContinueOnError) }

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint; 0 turns it off")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "run one active replica of several")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the operator's own namespace (default: $POD_NAMESPACE)")
	f.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "namespaces whose deployments are managed (default: all); capacity is always counted cluster-wide")
	f.BoolVar(&o.webhooks, "webhooks", true, "serve the admission webhooks")
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the admission webhooks")
	f.StringVar(&o.webhookCertDir, "webhook-cert-dir", "/tmp/trellis/serving-certs", "directory with tls.crt and tls.key of the webhooks")
	f.StringVar(&o.webhookService, "webhook-service", "trellis-webhook-service", "name of the webhooks' Service, which the certificate is made for")
	f.Float32Var(&o.qps, "kube-api-qps", 500, "requests per second to the API server")
	f.IntVar(&o.burst, "kube-api-burst", 1000, "requests to the API server in one burst")
	f.DurationVar(&o.takeBackAfter, "take-back-after", scheduler.DefaultTakeBackAfter, "how long a released pod may be unschedulable before its gang is taken back and planned again")
	f.DurationVar(&o.holdFor, "hold-for", scheduler.DefaultHoldFor, "how long the room of a lost replica is kept for its successor")
}

// complete checks the flags and fills in what follows from others.
func (o *options) complete() error {
	if o.namespace == "" {
		return errors.New("the operator's namespace is not known: set --namespace or the environment variable POD_NAMESPACE")
	}
	for i, ns := range o.watchNamespaces {
		o.watchNamespaces[i] = strings.TrimSpace(ns)
		if o.watchNamespaces[i] == "" {
			return errors.New("--watch-namespaces has an empty name; write it as --watch-namespaces=team-a,team-b or leave it out")
		}
	}
	if o.takeBackAfter <= 0 || o.holdFor <= 0 {
		return errors.New("--take-back-after and --hold-for must be positive durations, e.g. 30s")
	}
	return nil
}
