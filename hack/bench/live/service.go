// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// probeEvery is how long a replica that has ended stays in the Service: on a node the kubelet looks once a second which containers run.
const probeEvery = time.Second

// service stands in for the webhooks' Service: connections go to the replicas that are ready, in turns, as kube-proxy would lead them. Like
// kube-proxy it tries no second replica when the first one does not answer, and leaves connections that are open where they are.
type service struct {
	listener net.Listener
	replicas []string
	box      *sandbox.Sandbox

	mu    sync.Mutex
	ready []string
	// left is when a replica was last found to have ended, by name.
	left map[string]time.Time
	turn int
}

// serve leads the webhooks of the cluster to the replicas of these names, until ctx ends.
func (c *Cluster) serve(ctx context.Context, replicas ...string) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{listener: listener, replicas: replicas, box: c.box, ready: replicas, left: map[string]time.Time{}}
	context.AfterFunc(ctx, func() { listener.Close() })
	go s.probe(ctx)
	go s.accept()
	return s, c.redirect(ctx, int64(listener.Addr().(*net.TCPAddr).Port)) //nolint:forcetypeassert // a TCP listener
}

// probe follows which replicas are ready. One that has ended leaves at once; one that answers late stays, since a kubelet asks several times.
func (s *service) probe(ctx context.Context) {
	probes := &http.Client{Timeout: probeEvery}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, name := range s.replicas {
			s.follow(name, probeOf(ctx, probes, "http://"+s.box.ManagerProbes(name)+"/readyz"))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// follow takes in the answer to a probe.
func (s *service) follow(name string, answer error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := slices.Contains(s.ready, name)
	switch {
	case answer == nil && !here:
		s.ready = append(slices.Clone(s.ready), name)
	case errors.Is(answer, syscall.ECONNREFUSED) && here:
		s.ready = slices.DeleteFunc(slices.Clone(s.ready), func(other string) bool { return other == name })
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

// next replica to lead a connection to; none: "".
func (s *service) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		return ""
	}
	s.turn++
	return s.box.ManagerWebhooks(s.ready[s.turn%len(s.ready)])
}

// leftAt is when a replica that had ended last left the Service.
func (s *service) leftAt(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[name]
}

func (s *service) accept() {
	for {
		from, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.lead(from)
	}
}

func (s *service) lead(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", s.next())
	if err != nil {
		return // the caller finds its connection closed
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// redirect changes the port that webhooks are called at.
func (c *Cluster) redirect(ctx context.Context, port int64) error {
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
				if err := c.c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || !setPort(o, port) {
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

// setPort changes every reference to a webhook's Service, if there is one.
func setPort(o *unstructured.Unstructured, port int64) (changed bool) {
	hooks, _ := o.Object["webhooks"].([]any)
	if conversion, found, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "conversion", "webhook"); found {
		hooks = append(hooks, conversion)
	}
	for _, h := range hooks {
		service, found, err := unstructured.NestedFieldNoCopy(h.(map[string]any), "clientConfig", "service")
		if s, ok := service.(map[string]any); err == nil && found && ok {
			s["port"], changed = port, true
		}
	}
	return changed
}
