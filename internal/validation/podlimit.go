// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/podlimit"
)

// PodLimit returns an error for each exceeded bound on the number of pods. It checks replicas, nodeCount, and the total number of pods
// against limit (0: no limit). On an update, old is the former deployment. An update may keep or lower a number that exceeds its bound, so
// that such a graph can be scaled in step by step.
func PodLimit(updated, old *nvidiav1beta1.DynamoGraphDeployment, limit int64) field.ErrorList {
	if updated == nil || updated.DeletionTimestamp != nil {
		return nil
	}
	before := map[string]component{}
	if old != nil {
		for _, s := range componentsOf(old) {
			before[s.name] = s
		}
	}
	var errs field.ErrorList
	for _, s := range componentsOf(updated) {
		was, existed := before[s.name]
		if n := s.wanted(); n > nvidiav1beta1.MaxReplicas && (!existed || n > was.wanted()) {
			errs = append(errs, tooManyReplicas(s.path.Child("replicas"), n))
		}
		if n := s.nodes(); n > nvidiav1beta1.MaxNodeCount && (!existed || n > was.nodes()) {
			errs = append(errs, field.Invalid(s.path.Child("multinode", "nodeCount"), n,
				fmt.Sprintf("must be at most %d; run more replicas of fewer nodes", nvidiav1beta1.MaxNodeCount)))
		}
	}
	if why := OverLimit(updated, limit); why != "" && (old == nil || podlimit.Pods(updated) > podlimit.Pods(old)) {
		largest := bySize(updated)[0]
		errs = append(errs, field.Invalid(largest.path.Child("replicas"), largest.wanted(), why+"; lower replicas or nodeCount"))
	}
	return errs
}

func tooManyReplicas(path *field.Path, n int32) *field.Error {
	return field.Invalid(path, n, "must be at most %d; split the %s into several graphs", nvidiav1beta1.MaxReplicas, field.WordComponent)
}

// ScaleLimit returns an error if n replicas of the named component exceed a bound of [PodLimit]. The error refers to the replicas field of
// a scaling adapter.
func ScaleLimit(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32, limit int64) field.ErrorList {
	path := specPath.Child("replicas")
	if n > nvidiav1beta1.MaxReplicas {
		return one(tooManyReplicas(path, n))
	}
	scaled := withReplicas(dgd, name, n)
	if why := OverLimit(scaled, limit); why != "" && podlimit.Pods(scaled) > podlimit.Pods(dgd) {
		return one(field.Invalid(path, n, why+"; lower replicas"))
	}
	return nil
}

// withReplicas returns a shallow copy of the deployment with n replicas of the named component.
func withReplicas(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32) *nvidiav1beta1.DynamoGraphDeployment {
	scaled := *dgd
	scaled.Spec.Components = slices.Clone(dgd.Spec.Components)
	if c := scaled.Component(name); c != nil {
		c.Replicas = &n
	}
	return &scaled
}

// OverLimit returns a message with the numbers of pods if a deployment requests more pods than the maximum; otherwise "". The maximum is
// the argument most; 0 for no limit.
func OverLimit(dgd *nvidiav1beta1.DynamoGraphDeployment, most int64) string {
	pods := podlimit.Pods(dgd)
	if most == 0 || pods <= most {
		return ""
	}
	var parts []string
	for _, s := range bySize(dgd) {
		parts = append(parts, fmt.Sprintf("%s %d x %d", short(s.name), max(0, s.wanted()), s.nodes()))
	}
	return fmt.Sprintf("the graph asks for %d pods (replicas x nodeCount: %s), more than the %d that one graph may have "+
		"(--max-pods-per-graph)",
		pods, strings.Join(limit.First(parts, 3, ""), ", "), most)
}

// Exceeded returns a message about the bounds of [PodLimit] that a stored deployment exceeds; "" for none. The argument short lists the
// components that get fewer replicas than wanted.
func Exceeded(dgd *nvidiav1beta1.DynamoGraphDeployment, short []podlimit.Short, maxPods int64) string {
	why := OverLimit(dgd, maxPods)
	if errs := PodLimit(dgd, nil, 0); why == "" && len(errs) > 0 {
		why = errs.ToAggregate().Error()
	}
	if why == "" {
		return ""
	}
	var given []string
	for _, s := range short {
		given = append(given, fmt.Sprintf("%s has %d of %d replicas", s.Component, s.Given, s.Wanted))
	}
	if len(given) > 0 {
		why += "; " + strings.Join(limit.First(given, 3, "components"), ", ")
	}
	return why + "; pods that exist are kept, and none is created beyond the bound; lower replicas or nodeCount"
}

// bySize lists the components by their number of pods, from the most to the fewest.
func bySize(dgd *nvidiav1beta1.DynamoGraphDeployment) []component {
	components := componentsOf(dgd)
	slices.SortStableFunc(components, func(a, b component) int {
		return cmp.Compare(podlimit.PodsOf(b.ComponentSpec), podlimit.PodsOf(a.ComponentSpec))
	})
	return components
}

// nodes returns the number of pods of one replica.
func (s component) nodes() int32 {
	n, _ := s.PodsPerReplica()
	return n
}
