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

// SchedulingShards is the name of the CustomResourceDefinition of [SchedulingShardKind].
const SchedulingShards = "schedulingshards.kai.scheduler"

// SchedulingShard has the fields that Trellis reads.
type SchedulingShard struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SchedulingShardSpec `json:"spec,omitzero"`
}

// SchedulingShardSpec has the command-line arguments of the scheduler, by their names without dashes.
type SchedulingShardSpec struct {
	Args map[string]string `json:"args,omitempty"`
}

const (
	// argStaleness is the staleness period of PodGroups that do not set their own period. It is the time between the loss of a member and
	// the eviction of the other members. A negative period disables the eviction.
	argStaleness = "default-staleness-grace-period"
	// defaultStaleness is KAI's default of argStaleness.
	defaultStaleness = "60s"
)

// Evicts returns a warning about the first shard whose scheduler evicts incomplete PodGroups that set no staleness period of their own; ""
// if there is no such shard. The warning contains the fix.
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
