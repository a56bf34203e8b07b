// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// probeEvery is how long a replica that has ended stays in the Service: on a real node the kubelet checks once a second which containers
// run.
const probeEvery = time.Second

// service replaces the webhooks' Service: it forwards connections to the ready replicas.
type service struct {
	*sandbox.Endpoints
	// addresses of the webhooks of each replica, by name.
	addresses map[string]string

	mu sync.Mutex
	// left is when a replica was last found to have ended, by name.
	left map[string]time.Time
}

// serve forwards the cluster's webhook calls to the replicas with these names, until ctx ends.
func (c *Cluster) serve(ctx context.Context, replicas ...string) (*service, error) {
	addresses := map[string]string{}
	for _, name := range replicas {
		addresses[name] = c.box.ManagerWebhooks(name)
	}
	s, err := newService(addresses)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, s.Close)
	go s.probe(ctx, c.box.ManagerProbes)
	return s, c.redirect(ctx, int(s.Port()))
}

func newService(addresses map[string]string) (*service, error) {
	endpoints, err := sandbox.NewEndpoints(slices.Sorted(maps.Values(addresses))...)
	return &service{Endpoints: endpoints, addresses: addresses, left: map[string]time.Time{}}, err
}

// probe follows which replicas are ready. A replica that has ended leaves at once; a replica that responds late stays, because a kubelet
// probes several times.
func (s *service) probe(ctx context.Context, probesOf func(name string) string) {
	probes := &http.Client{Timeout: probeEvery}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		for name := range s.addresses {
			s.follow(name, probeOf(ctx, probes, "http://"+probesOf(name)+"/readyz"))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// follow processes the result of a probe.
func (s *service) follow(name string, answer error) {
	switch {
	case answer == nil:
		s.Add(s.addresses[name])
	case errors.Is(answer, syscall.ECONNREFUSED) && s.Remove(s.addresses[name]):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left[name] = time.Now()
	}
}

func probeOf(ctx context.Context, c *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// leftAt returns when a replica that had ended last left the Service.
func (s *service) leftAt(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[name]
}

// redirect changes the port of all webhook configurations.
func (c *Cluster) redirect(ctx context.Context, port int) error {
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	for _, kind := range []schema.GroupVersionKind{
		admission.WithKind("ValidatingWebhookConfiguration"), admission.WithKind("MutatingWebhookConfiguration"),
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.c.List(ctx, list); err != nil {
			return fmt.Errorf("listing every %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				if err := c.c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || !sandbox.SetServicePort(o, port) {
					return err
				}
				return c.c.Update(ctx, o)
			})
			if err != nil {
				return fmt.Errorf("redirecting %s %s: %w", kind.Kind, o.GetName(), err)
			}
		}
	}
	return nil
}
