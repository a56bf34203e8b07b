// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
)

// Kinds of capacity requests.
const (
	// KindPlaceholders requests capacity with pods of low priority, for which any autoscaler adds nodes.
	KindPlaceholders = "Placeholders"
	// KindProvisioningRequest requests capacity with an object of Cluster Autoscaler's API.
	KindProvisioningRequest = "ProvisioningRequest"
	// KindNone requests no capacity.
	KindNone = "None"
)

// Kinds lists the kinds that request capacity.
var Kinds = []string{KindPlaceholders, KindProvisioningRequest}

// AnnotationKind on a deployment is the kind of capacity requests for its gangs: one of [Kinds], or [KindNone].
const AnnotationKind = "trellis.dev/capacity-request"

// KindOf returns the kind of capacity requests for a deployment with these annotations. If the annotation is missing, it returns preset.
func KindOf(annotations map[string]string, preset string) string {
	if kind, named := annotations[AnnotationKind]; named {
		return kind
	}
	return preset
}

// Gang is a set of pods that are placed together and wait for capacity.
type Gang struct {
	// Graph is the name of the deployment, and UID is the UID of the deployment.
	Graph types.NamespacedName
	UID   types.UID
	// Name is the name of the gang in messages: "the base gang", "Worker-2".
	Name string
	// Kind is the kind of the gang's capacity request.
	Kind string
	// Since is the creation time of the gang's newest pod.
	Since time.Time
	// Priority is the highest priority among the gang's pods.
	Priority int32
	// Sets are the gang's pods by shape, the largest set first.
	Sets []Set
	// Never explains why no domain of the current nodes can hold the gang; nil if a domain can.
	Never *placement.Never
	// Bars is the reason why Trellis cannot request capacity for the gang; "" for none.
	Bars string
}

// Set is a number of pods with the same shape.
type Set struct {
	Count    int32
	Template corev1.PodTemplateSpec
	// Need contains the resource requests of one pod.
	Need corev1.ResourceList
}

// Pods returns the number of pods of the gang.
func (g *Gang) Pods() (n int) {
	for i := range g.Sets {
		n += int(g.Sets[i].Count)
	}
	return n
}

// Ask returns the name of the gang's capacity request: a hash of the deployment, the gang and the pods.
func (g *Gang) Ask() string {
	text, err := json.Marshal(g.Sets)
	if err != nil {
		panic(err) // API types always marshal
	}
	sum := sha256.Sum256(slices.Concat([]byte(string(g.UID)+"\n"+g.Name+"\n"+g.Kind+"\n"), text))
	return hex.EncodeToString(sum[:5])
}

// String describes the requested capacity: "2 pods x 8 nvidia.com/gpu".
func (g *Gang) String() string {
	parts := make([]string, 0, len(g.Sets))
	for i := range g.Sets {
		parts = append(parts, g.Sets[i].String())
	}
	return strings.Join(parts, " + ")
}
