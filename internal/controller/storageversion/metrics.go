// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	remaining = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "trellis_storage_migration_objects_remaining",
		Help: "Objects that are still to be rewritten in the storage version of their definition, of those that are known by now.",
	}, []string{"resource"})
	complete = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "trellis_storage_migration_complete",
		Help: "1 when all objects are stored in the storage version of their definition, else 0.",
	}, []string{"resource"})
)

func init() { metrics.Registry.MustRegister(Collectors()...) }

// Collectors returns the metrics of this package. They have no series until a definition is reconciled, so a standby replica of the
// operator has no series.
func Collectors() []prometheus.Collector { return []prometheus.Collector{remaining, complete} }
