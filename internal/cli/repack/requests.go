// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/leaving"
)

// requests are the requests to move that a command has written into pods.
type requests struct {
	client.Client
	pods map[types.UID]*corev1.Pod
}

// repeat requests that the pods' replicas move, and repeats requests before they end. It leaves the requests of others in place. It ignores
// pods that no longer exist.
func (r *requests) repeat(ctx context.Context, pods []*corev1.Pod, now time.Time) error {
	request := leaving.Eviction{At: now, WithNode: true}
	for _, pod := range pods {
		before, requested := leaving.EvictionOf(pod)
		if pod.DeletionTimestamp != nil || requested && !before.WithNode || !request.Replaces(pod) {
			continue
		}
		if r.pods == nil {
			r.pods = map[types.UID]*corev1.Pod{}
		}
		r.pods[pod.UID] = pod
		if err := annotate(ctx, r, pod, request.String()); gone(err) != nil {
			return cli.Explain(err, fmt.Sprintf("changing pod %s/%s", pod.Namespace, pod.Name))
		}
	}
	return nil
}

// withdraw removes the requests.
func (r *requests) withdraw(ctx context.Context) error {
	var errs []error
	for _, pod := range r.pods {
		live := &corev1.Pod{}
		err := r.Get(ctx, client.ObjectKeyFromObject(pod), live)
		if request, requested := leaving.EvictionOf(live); err == nil && live.UID == pod.UID && requested && request.WithNode {
			err = annotate(ctx, r, live, nil)
		}
		if gone(err) != nil {
			errs = append(errs, cli.Explain(err, fmt.Sprintf("changing pod %s/%s", pod.Namespace, pod.Name)))
		}
	}
	return errors.Join(errs...)
}

// gone returns nil for the error of a change to a pod that no longer exists, or whose name another pod has.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
