// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// heldBack lets the status writes of the scaling groups of one graph wait on their way to the API server.
type heldBack struct {
	graph string
	// seen is closed when the first one waits, and release lets all go on.
	seen, release chan struct{}
	once          sync.Once
}

func (h *heldBack) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	through := *o.HTTPClient
	next := through.Transport
	through.Transport = roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/scalinggroups/"+h.graph+"-") && strings.HasSuffix(request.URL.Path, "/status") {
			h.once.Do(func() { close(h.seen) })
			select {
			case <-h.release:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
		return next.RoundTrip(request)
	})
	o.HTTPClient = &through
	return client.New(config, o)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// TestWritesOfOneGraphDelayNoOther: a status is on its way for long. Other graphs get what they need and their statuses meanwhile.
func TestWritesOfOneGraphDelayNoOther(t *testing.T) {
	h := &heldBack{graph: "held", seen: make(chan struct{}), release: make(chan struct{})}
	b := newBareWith(t, h.newClient)
	defer close(h.release)
	namespace := newNamespace(t, b.c)
	create := func(name string) {
		t.Helper()
		dgd := deployment(namespace, graphs.Services{"Worker": graphs.Worker(1, 1, 1, "")})
		dgd.Name = name
		b.must(b.c.Create(t.Context(), dgd))
	}
	create("held")
	select {
	case <-h.seen:
	case <-time.After(time.Minute):
		t.Fatal("no status of the group is written")
	}
	create("other")
	b.until("the other graph has its pod and a status", ownWritesWithin/2, func() error {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "other"}, dgd); err != nil {
			return err
		}
		if len(dgd.Status.Conditions) == 0 {
			return errors.New("it has no status")
		}
		for _, pod := range b.pods(namespace) {
			if strings.HasPrefix(pod.Name, "other-") {
				return nil
			}
		}
		return errors.New("it has no pod")
	})
}
