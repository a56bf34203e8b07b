// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
)

// PodSize is the size of a pod of a gang, in bytes: the mean of the gang's pods.
type PodSize struct {
	// JSON and Protobuf are the sizes of the Ready pod, as the API server returns it; it stores protobuf. Managed fields and status are
	// included.
	JSON, Protobuf float64
	// Created is the protobuf size of the pod at its creation: without pins, managed fields and status.
	Created float64
	// Digits is the number of digits of numbers beyond their first ones, in the JSON.
	Digits float64
}

// PodSize creates a graph of one gang in one domain of a level, [hall.Cluster] for no constraint, and returns the size of its pods when
// they are Ready. Then it checks the pods' hosts, and deletes all objects. The graph always has the same name.
func (c *Cluster) PodSize(ctx context.Context, pods int, level hall.Level) (size PodSize, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.followGraphs(ctx)
	if err != nil {
		return size, err
	}
	defer p.stop()
	if err := c.create(ctx, deployments(1, multinode(1, pods, level))[0]); err != nil {
		return size, err
	}
	if err := p.until(ctx, pods, 1, patience); err != nil {
		return size, err
	}
	ask := hall.Ask{Name: "gang", Whole: hall.Cluster, Each: level, Gangs: 1, Pods: pods, GPUs: hall.GPUs}
	if err := judgeGangs(c.shape, p.pods, ask, func(*corev1.Pod) string { return "gang" }); err != nil {
		return size, err
	}
	if size, err = c.sizeOf(ctx, p.pods); err != nil {
		return size, err
	}
	return size, c.clear(ctx, p.pods)
}

// sizeOf reads all pods from the API server.
func (c *Cluster) sizeOf(ctx context.Context, p *pods) (sum PodSize, err error) {
	config, err := c.box.RESTConfig()
	if err != nil {
		return sum, err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return sum, err
	}
	read := func(name, contentType string) ([]byte, error) {
		return set.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").Name(name).SetHeader("Accept", contentType).Do(ctx).Raw()
	}
	n := float64(len(p.byName))
	for name := range p.byName {
		asJSON, err := read(name, runtime.ContentTypeJSON)
		if err != nil {
			return sum, fmt.Errorf("reading pod %s: %w", name, err)
		}
		asProtobuf, err := read(name, runtime.ContentTypeProtobuf)
		if err != nil {
			return sum, fmt.Errorf("reading pod %s: %w", name, err)
		}
		created, err := createdSize(asJSON)
		if err != nil {
			return sum, err
		}
		sum.JSON += float64(len(asJSON)) / n
		sum.Protobuf += float64(len(asProtobuf)) / n
		sum.Created += created / n
		sum.Digits += float64(longerDigits(asJSON)) / n
	}
	return sum, nil
}

// createdSize returns the size in protobuf of the pod before its release.
func createdSize(asJSON []byte) (float64, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(asJSON, pod); err != nil {
		return 0, err
	}
	pod.ManagedFields, pod.Status = nil, corev1.PodStatus{}
	pod.Spec.NodeName, pod.Spec.NodeSelector, pod.Spec.Affinity = "", nil, nil
	data, err := pod.Marshal()
	return float64(len(data)), err
}

var (
	// random matches UIDs and hashes, whose digits are not numbers.
	random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{8,}\b`)
	number = regexp.MustCompile(`[0-9]+`)
)

// longerDigits counts the digits of all numbers beyond their first ones: only these may make a pod of a larger gang larger.
func longerDigits(asJSON []byte) int {
	n := 0
	for _, one := range number.FindAll(random.ReplaceAll(asJSON, []byte("x")), -1) {
		n += len(one) - 1
	}
	return n
}
