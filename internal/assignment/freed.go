// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Freed are hosts that are reserved for a waiting graph while replicas of other graphs move away from them.
type Freed struct {
	Hosts  []string
	Domain topology.Path
	// Until is the end of the reservation, in whole seconds.
	Until time.Time
	// Replicas and GPUs count the replicas still to move, and their GPUs. MaxGPUs limits the GPUs of the replicas that restart for the
	// graph; 0: only the operator's limit applies.
	Replicas      int
	GPUs, MaxGPUs int64
	// Graphs are the graphs of the replicas that move, sorted.
	Graphs []types.NamespacedName
}

// Equal reports whether two values have the same content. It compares Until in whole seconds.
func (f *Freed) Equal(other *Freed) bool {
	if f == nil || other == nil {
		return f == other
	}
	return slices.Equal(f.Hosts, other.Hosts) && f.Domain.Equal(other.Domain) && seconds(f.Until).Equal(seconds(other.Until)) &&
		f.Replicas == other.Replicas && f.GPUs == other.GPUs && f.MaxGPUs == other.MaxGPUs && slices.Equal(f.Graphs, other.Graphs)
}

func (f *Freed) write() *trellisv1alpha1.FreedHosts {
	if f == nil {
		return nil
	}
	out := &trellisv1alpha1.FreedHosts{
		Hosts: f.Hosts, Domain: f.Domain.String(), Until: metav1.NewTime(seconds(f.Until)),
		Replicas: int32(f.Replicas), GPUs: f.GPUs, MaxGPUs: f.MaxGPUs,
	}
	for _, graph := range f.Graphs {
		out.Deployments = append(out.Deployments, graph.String())
	}
	return out
}

func readFreed(in *trellisv1alpha1.FreedHosts) *Freed {
	if in == nil || len(in.Hosts) == 0 {
		return nil
	}
	f := &Freed{
		Hosts: in.Hosts, Domain: topology.ParsePath(in.Domain), Until: seconds(in.Until.Time),
		Replicas: int(max(in.Replicas, 1)), GPUs: max(in.GPUs, 0), MaxGPUs: max(in.MaxGPUs, 0),
	}
	for _, one := range in.Deployments {
		namespace, name, _ := strings.Cut(one, "/")
		f.Graphs = append(f.Graphs, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return f
}

// freedBytes is the maximum size in bytes of a Freed as JSON, without the hosts, the domain and the graphs.
const freedBytes = len(`"freed":{"hosts":[],"domain":"","until":"2006-01-02T15:04:05Z","replicas":2147483647,` +
	`"gpus":9223372036854775807,"maxGPUs":9223372036854775807,"deployments":[]},`)

// bytes returns the maximum size of f as JSON.
func (f *Freed) bytes() int {
	if f == nil {
		return 0
	}
	most := freedBytes + len(f.Domain.String())
	for _, host := range f.Hosts {
		most += len(host) + len(`"",`)
	}
	for _, graph := range f.Graphs {
		most += len(graph.String()) + len(`"",`)
	}
	return most
}
