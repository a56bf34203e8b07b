// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// bePlacedIn: the nodes of some pods are in these domains of a level and in no others, "a" of zone or "a/r0" of rack, in alphabetical order.
func (w *world) bePlacedIn(level string, domains ...string) types.GomegaMatcher {
	return WithTransform(func(pods []corev1.Pod) []string { return w.domains(level, pods...) }, Equal(domains))
}

// bePlacedInOne: the nodes of some pods are in one domain of a level.
func (w *world) bePlacedInOne(level string) types.GomegaMatcher {
	return WithTransform(func(pods []corev1.Pod) []string { return w.domains(level, pods...) }, HaveLen(1))
}

// haveAllOf: the pods of these UIDs are all among some pods.
func haveAllOf(uids map[apitypes.UID]bool) types.GomegaMatcher {
	return WithTransform(func(now map[apitypes.UID]bool) []apitypes.UID {
		return slices.Collect(maps.Keys(now))
	}, ContainElements(slices.Collect(maps.Keys(uids))))
}

// haveCondition: a deployment has a condition with this status and reason whose message has all the given parts.
func haveCondition(kind string, status metav1.ConditionStatus, reason string, parts ...string) types.GomegaMatcher {
	said := []types.GomegaMatcher{HavePrefix(fmt.Sprintf("%s is %s/%s: ", kind, status, reason))}
	for _, part := range parts {
		said = append(said, ContainSubstring(part))
	}
	return WithTransform(conditionsOf, ContainElement(SatisfyAll(said...)))
}

// conditionsOf are the conditions of a deployment in words.
func conditionsOf(dgd *nvidiav1alpha1.DynamoGraphDeployment) []string {
	var out []string
	for _, c := range dgd.Status.Conditions {
		out = append(out, fmt.Sprintf("%s is %s/%s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}
