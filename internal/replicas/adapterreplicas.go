// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"maps"
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// ToCarry returns, by component, the numbers of replicas to copy from adapters into the deployment, and the reasons why it refuses other
// numbers. For example, it refuses a number if the graph would have more pods than limit; a limit of 0 means no limit. It considers
// decreases first, and then increases, each in the order of component names.
func ToCarry(dgd *nvidiav1beta1.DynamoGraphDeployment, adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter,
	limit int64) (numbers map[string]int32, refused map[string]string) {
	numbers, refused = map[string]int32{}, map[string]string{}
	differ, after := differing(dgd, adapters), dgd
	names := slices.Sorted(maps.Keys(differ))
	slices.SortStableFunc(names, func(a, b string) int {
		return grows(dgd, differ, a) - grows(dgd, differ, b)
	})
	for _, name := range names {
		n := differ[name]
		if errs := append(validation.ReplicasAllowed(dgd, name, n), validation.ScaleLimit(after, name, n, limit)...); len(errs) > 0 {
			refused[name] = errs.ToAggregate().Error()
			continue
		}
		numbers[name] = n
		after = withReplicas(after, name, n)
	}
	return numbers, refused
}
