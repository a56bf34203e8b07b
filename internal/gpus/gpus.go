// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpus counts the GPUs of one replica of a component, in the form in which the Dynamo planner reads them in status.components: the
// GPUs of the replica's engine (the main containers of its pods), and the GPUs of the replica (all containers of its pods).
//
//	nodes: 2, main: 8 GPUs, a sidecar: 1      engine 16, replica 18
//
// The number of GPUs of a container is the amount of a GPU resource or, without such an amount, the number of GPUs in the claims that the
// container uses. The GPUs of a pod are counted as the kube-scheduler counts them: the sum over the pod's containers, or the maximum over
// its init containers if that is more. A claim that is created from a template counts for each pod; a named claim counts once for all pods
// of the replica.
//
// If GPUs cannot be counted, the result is an error, never 0. The package is pure: the caller provides the claims.
package gpus

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Shape contains the numbers of GPUs of one replica.
type Shape struct{ PerEngine, PerReplica int64 }

// Pods are identical pods of a replica. The first container of each pod is the main container.
type Pods struct {
	Spec  *corev1.PodSpec
	Count int64
}

// ShapeOf returns the shape of a replica that consists of these pods.
func ShapeOf(pods []Pods, devices Devices) (Shape, error) {
	engine, replica := tally{devices: devices}, tally{devices: devices}
	for _, p := range pods {
		main := *p.Spec
		main.InitContainers, main.Containers = nil, p.Spec.Containers[:min(1, len(p.Spec.Containers))]
		if err := engine.add(&main, p.Count); err != nil {
			return Shape{}, err
		}
		if err := replica.add(p.Spec, p.Count); err != nil {
			return Shape{}, err
		}
	}
	return Shape{PerEngine: engine.total, PerReplica: replica.total}, nil
}

// tally sums up the GPUs of pods.
type tally struct {
	devices Devices
	total   int64
	// shared contains the requests of named claims that are already counted.
	shared map[used]bool
}

func (t *tally) add(spec *corev1.PodSpec, count int64) error {
	scalar, claiming, err := scalarsOf(spec)
	if err != nil {
		return err
	}
	own, err := t.claimed(spec, claiming)
	if err != nil {
		return err
	}
	t.total += (scalar + own) * count
	return nil
}

// scalarsOf returns the number of GPUs that a pod requests as amounts of resources, counted as the kube-scheduler counts them. It also
// returns the containers without such an amount. For these containers, only the claims count.
func scalarsOf(spec *corev1.PodSpec) (total int64, claiming []*corev1.Container, err error) {
	count := func(c *corev1.Container) (n int64) {
		if err != nil {
			return 0
		}
		var counted bool
		if n, counted, err = amountOf(c); !counted {
			claiming = append(claiming, c)
		}
		return n
	}
	var sidecars, peak, sum int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		n := count(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars += n // it keeps running alongside all later containers
			continue
		}
		peak = max(peak, sidecars+n)
	}
	for i := range spec.Containers {
		sum += count(&spec.Containers[i])
	}
	return max(peak, sidecars+sum), claiming, err
}

// amountOf returns a container's amount of a GPU resource, from its limits or otherwise from its requests. counted is false if there is no
// amount or the amount is 0.
func amountOf(c *corev1.Container) (n int64, counted bool, err error) {
	var name corev1.ResourceName
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for resourceName, quantity := range list {
			switch {
			case !IsGPU(string(resourceName)):
			case name != "" && name != resourceName:
				return 0, true, fmt.Errorf("container %s requests two kinds of GPUs, %s and %s", c.Name, min(name, resourceName),
					max(name, resourceName))
			case name == "":
				name = resourceName
				if n, err = integer(quantity); err != nil {
					return 0, true, fmt.Errorf("container %s: %s of %s %w", c.Name, quantity.String(), name, err)
				}
			}
		}
	}
	return n, n > 0, nil
}

func integer(q resource.Quantity) (int64, error) {
	n := q.Value()
	if n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("is not a number of GPUs")
	}
	if resource.NewQuantity(n, resource.DecimalSI).Cmp(q) != 0 {
		return 0, fmt.Errorf("is not an integer")
	}
	return n, nil
}

// IsGPU reports whether a resource name stands for GPUs, or for GPU partitions that count as GPUs.
func IsGPU(name string) bool {
	_, kind, _ := strings.Cut(name, "/")
	return name == "gpu" || kind == "gpu" || strings.HasPrefix(kind, "mig-") || strings.HasPrefix(name, "gpu.")
}
