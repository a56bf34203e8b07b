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

// Ways in which capacity is asked for.
const (
	// KindPlaceholders are pods of low priority that any autoscaler adds nodes for.
	KindPlaceholders = "Placeholders"
	// KindProvisioningRequest is an object of Cluster Autoscaler's API.
	KindProvisioningRequest = "ProvisioningRequest"
	// KindNone asks for nothing.
	KindNone = "None"
)

// Kinds are the ways in which capacity is asked for.
var Kinds = []string{KindPlaceholders, KindProvisioningRequest}

// AnnotationKind on a deployment is how capacity is asked for its gangs: one of [Kinds], or [KindNone].
const AnnotationKind = "trellis.dev/capacity-request"

// KindOf is how capacity is asked for a deployment with these annotations. preset is the kind of those that name none.
func KindOf(annotations map[string]string, preset string) string {
	if kind, named := annotations[AnnotationKind]; named {
		return kind
	}
	return preset
}

// Gang is pods that are placed together and wait for capacity.
type Gang struct {
	// Graph is the deployment, UID its UID.
	Graph types.NamespacedName
	UID   types.UID
	// Name is what messages call it: "the base gang", "Worker-2".
	Name string
	// Kind is how capacity is asked for it.
	Kind string
	// Since is when the last of its pods was created.
	Since time.Time
	// Priority is that of its most important pod.
	Priority int32
	// Sets are its pods by shape, the most pods first.
	Sets []Set
	// Never explains why no domain of today's nodes could hold it; nil when one could.
	Never *placement.Never
	// Bars is what keeps it from being asked for, in words; "" when nothing does.
	Bars string
}

// Set is a number of pods of one shape.
type Set struct {
	Count    int32
	Template corev1.PodTemplateSpec
	// Need is what one pod requests.
	Need corev1.ResourceList
}

// Pods is how many pods the gang has.
func (g *Gang) Pods() (n int) {
	for i := range g.Sets {
		n += int(g.Sets[i].Count)
	}
	return n
}

// Ask is the name of what is asked for the gang: a hash of the deployment, the gang and the pods.
func (g *Gang) Ask() string {
	text, err := json.Marshal(g.Sets)
	if err != nil {
		panic(err) // API types always marshal
	}
	sum := sha256.Sum256(slices.Concat([]byte(string(g.UID)+"\n"+g.Name+"\n"+g.Kind+"\n"), text))
	return hex.EncodeToString(sum[:5])
}

// String describes what is asked for: "2 pods x 8 nvidia.com/gpu".
func (g *Gang) String() string {
	parts := make([]string, 0, len(g.Sets))
	for i := range g.Sets {
		parts = append(parts, g.Sets[i].String())
	}
	return strings.Join(parts, " + ")
}
