// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"crypto/tls"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/trellis-k8s/trellis/internal/webhook"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsOptions say how metrics are served: over HTTPS to who may get the path /metrics (the ClusterRole trellis-metrics-reader), or over plain
// HTTP to everybody. The certificate is that of the webhooks, which the Secret's ca.crt verifies for the name of their Service; without
// webhooks it is made by the server itself, and nothing verifies it.
func metricsOptions(o Options, certificate *webhook.Certificate) metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure || o.MetricsAddress == "0" {
		return options
	}
	options.SecureServing, options.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	if o.Webhooks || o.Conversion {
		options.TLSOpts = []func(*tls.Config){certificate.ServeWith}
	}
	return options
}
