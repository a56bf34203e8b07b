// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchedulingShardKind is the kind that configures one scheduler of KAI.
var SchedulingShardKind = schema.GroupVersionKind{Group: "kai.scheduler", Version: "v1", Kind: "SchedulingShard"}

// SchedulingShards is the name of the definition of [SchedulingShardKind].
const SchedulingShards = "schedulingshards.kai.scheduler"

// SchedulingShard has the fields that Trellis reads.
type SchedulingShard struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SchedulingShardSpec `json:"spec,omitzero"`
}

// SchedulingShardSpec has the arguments of the scheduler, by their names without dashes.
type SchedulingShardSpec struct {
	Args map[string]string `json:"args,omitempty"`
}

const (
	// argStaleness is the staleness period of PodGroups without one: the time from the loss of a member to their eviction. A negative
	// time disables the eviction.
	argStaleness = "default-staleness-grace-period"
	// defaultStaleness is KAI's default of argStaleness.
	defaultStaleness = "60s"
)

// Evicts names a shard that evicts incomplete PodGroups without a staleness period, and the fix; "" for none.
func Evicts(shards []SchedulingShard) string {
	slices.SortFunc(shards, func(a, b SchedulingShard) int { return strings.Compare(a.Name, b.Name) })
	for i := range shards {
		period := cmp.Or(shards[i].Spec.Args[argStaleness], defaultStaleness)
		if strings.HasPrefix(period, "-") {
			continue
		}
		return fmt.Sprintf("KAI evicts the pods of a gang that lacks a pod for %s; set spec.args[%q] of the SchedulingShard %s to %q",
			period, argStaleness, shards[i].Name, neverStale)
	}
	return ""
}
