// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package newpod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// limitRanges returns the LimitRanges of a namespace, sorted by name.
func (o *Objects) limitRanges(namespace string) []*corev1.LimitRange {
	found := slices.DeleteFunc(slices.Clone(o.LimitRanges), func(l *corev1.LimitRange) bool { return l.Namespace != namespace })
	slices.SortFunc(found, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// setLimits sets missing limits and requests of each container to the defaults of a LimitRange.
func setLimits(l *corev1.LimitRange, pod *corev1.Pod) {
	limits, requests := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range l.Spec.Limits {
		if item := &l.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			itsLimits, itsRequests := defaultsOf(item)
			maps.Copy(limits, itsLimits)
			maps.Copy(requests, itsRequests)
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Limits, r.Requests = withDefaults(r.Limits, limits), withDefaults(r.Requests, requests)
		}
	}
}

// defaultsOf returns the defaults of a LimitRange item as the API server completes them when it stores the item: a limit defaults to the
// maximum, and a request to the limit or else to the minimum.
func defaultsOf(item *corev1.LimitRangeItem) (limits, requests corev1.ResourceList) {
	limits = withDefaults(maps.Clone(item.Default), item.Max)
	return limits, withDefaults(withDefaults(maps.Clone(item.DefaultRequest), limits), item.Min)
}

// aboveLimits lists the container requests that exceed the container's limit, which may come from a LimitRange.
func aboveLimits(pod *corev1.Pod) (out []string) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if request.Cmp(limit) > 0 {
				out = append(out, fmt.Sprintf("container %s: %s request %s is above the limit of %s", c.Name, name, &request, &limit))
			}
		}
	}
	return out
}

// breaches lists the bounds of a LimitRange that a pod violates, without duplicates.
func breaches(l *corev1.LimitRange, pod *corev1.Pod) []string {
	var out []string
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				for _, why := range outside(item, c.Resources.Requests, c.Resources.Limits) {
					out = append(out, fmt.Sprintf("container %s: %s", c.Name, why))
				}
			}
		case corev1.LimitTypePod:
			spec := &corev1.Pod{Spec: *pod.Spec.DeepCopy()}
			spec.Spec.Overhead = nil
			out = append(out, outside(item, resource.PodRequests(spec, resource.PodResourcesOptions{}), resource.PodLimits(spec,
				resource.PodResourcesOptions{}))...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// outside lists the violated bounds of an item. A missing request violates a minimum and a ratio, a missing limit a maximum and a ratio.
func outside(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) []string {
	var out []string
	say := func(name corev1.ResourceName, format string, args ...any) {
		out = append(out, string(name)+" "+fmt.Sprintf(format, args...))
	}
	for name, least := range item.Min {
		request, asked := requests[name]
		limit, limited := limits[name]
		switch {
		case !asked:
			say(name, "needs a request of at least %s", &least)
		case request.Cmp(least) < 0:
			say(name, "request %s is below the minimum of %s", &request, &least)
		case limited && limit.Cmp(least) < 0:
			say(name, "limit %s is below the minimum of %s", &limit, &least)
		}
	}
	for name, most := range item.Max {
		request := requests[name]
		limit, limited := limits[name]
		switch {
		case !limited:
			say(name, "needs a limit of at most %s", &most)
		case limit.Cmp(most) > 0:
			say(name, "limit %s is above the maximum of %s", &limit, &most)
		case request.Cmp(most) > 0:
			say(name, "request %s is above the maximum of %s", &request, &most)
		}
	}
	for name, most := range item.MaxLimitRequestRatio {
		request, limit := requests[name], limits[name]
		if request.IsZero() || limit.IsZero() || ratio(limit, request) > most.AsApproximateFloat64() {
			say(name, "limit is more than %s times the request", &most)
		}
	}
	return out
}

func ratio(limit, request apiresource.Quantity) float64 {
	return limit.AsApproximateFloat64() / request.AsApproximateFloat64()
}
