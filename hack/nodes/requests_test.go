// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// clients is the number of concurrent clients, each with one request at a time.
	clients = 4
	// pause is the time between two requests of a client.
	pause = 20 * time.Millisecond
	// settled is the number of consecutive answered requests after which a replacement of replicas counts as over.
	settled = 400
)

// requests are dry runs of creates in both versions, which need admission and conversion.
type requests struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu sync.Mutex
	// asked counts the requests, and answered the requests since the last refusal.
	asked, answered int
	refused         []string
}

func (o *installed) ask(ctx SpecContext) *requests {
	asking, cancel := context.WithCancel(ctx)
	r := &requests{cancel: cancel}
	DeferCleanup(r.end)
	for i := range clients {
		r.ended.Go(func() {
			for ; asking.Err() == nil; <-time.After(pause) {
				err := o.api.Create(asking, created(i), client.DryRunAll)
				r.count(asking, err)
			}
		})
	}
	return r
}

// created returns a deployment in a client's version: v1beta1 for even clients, v1alpha1 for odd ones.
func created(by int) client.Object {
	main := map[string]any{"name": "main", "image": peerImage}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
		"spec": map[string]any{"components": []any{map[string]any{
			"name": "Worker", "type": "worker",
			"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{main}}},
		}}},
	}}
	if by%2 == 1 {
		object.SetAPIVersion("nvidia.com/v1alpha1")
		object.Object["spec"] = map[string]any{"services": map[string]any{"Worker": map[string]any{
			"componentType": "worker", "extraPodSpec": map[string]any{"mainContainer": map[string]any{"image": peerImage}},
		}}}
	}
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(fmt.Sprintf("asked-%d", by))
	return object
}

func (r *requests) count(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil: // canceled by end
	case err != nil:
		r.asked, r.answered = r.asked+1, 0
		r.refused = append(r.refused, time.Now().Format(time.StampMilli)+" "+err.Error())
	default:
		r.asked, r.answered = r.asked+1, r.answered+1
	}
}

// untilAnswered waits until the given number of consecutive requests was answered.
func (r *requests) untilAnswered(ctx SpecContext, many int) {
	GinkgoHelper()
	r.mu.Lock()
	r.answered = 0
	r.mu.Unlock()
	Eventually(ctx, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.answered < many {
			return fmt.Errorf("%d in succession were answered, the last refusals: %q", r.answered, r.refused[max(0, len(r.refused)-2):])
		}
		return nil
	}).Should(Succeed(), "waiting until all requests are answered")
}

// end cancels the requests, and returns their number, and the errors of refused ones.
func (r *requests) end() (asked int, refused []string) {
	r.cancel()
	r.ended.Wait()
	return r.asked, r.refused
}
