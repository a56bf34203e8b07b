// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// heldBack lets patches of objects of one graph wait on their way to the API server.
type heldBack struct {
	// matches a request of the graph "held".
	matches func(*http.Request) bool
	// seen is closed when the first one waits, and release lets all continue.
	seen, release chan struct{}
	once          sync.Once
}

func (h *heldBack) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	through := *o.HTTPClient
	next := through.Transport
	through.Transport = roundTripper(func(request *http.Request) (*http.Response, error) {
		if h.matches(request) {
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

// patchOf matches patches of objects of the graph, whose paths have this end.
func patchOf(resource, end string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		path := request.URL.Path
		return request.Method == http.MethodPatch && strings.Contains(path, "/"+resource+"/held-") && strings.HasSuffix(path, end)
	}
}

// trial matches creates of pods of the graph that store nothing.
func trial(request *http.Request) bool {
	if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/pods") || !request.URL.Query().Has("dryRun") {
		return false
	}
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	defer func() { _ = body.Close() }()
	sent, err := io.ReadAll(body)
	return err == nil && bytes.Contains(sent, []byte("held-"))
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

var _ = Describe("A write of one graph that is on its way for long", func() {
	DescribeTable("delays no other graph", func(ctx SpecContext, gateAll bool, matches func(*http.Request) bool) {
		h := &heldBack{matches: matches, seen: make(chan struct{}), release: make(chan struct{})}
		b := newBareWith(ctx, h.newClient, func(o *Options) { o.ownWritesWithin, o.GateAllPods = 24*time.Hour, gateAll })
		b.hosts(2)
		defer close(h.release)
		namespace := newNamespace(b.c)
		create := func(name string) {
			GinkgoHelper()
			worker := graphs.Worker(1, 2, 0, "")
			worker.Resources = nil
			dgd := deployment(namespace, graphs.Components{"Worker": worker})
			dgd.Name = name
			Expect(b.c.Create(ctx, dgd)).To(Succeed())
		}
		create("held")
		Eventually(ctx, h.seen).Should(BeClosed(), "no such write is made")
		create("other")
		b.until("the other graph has its pod and a status", func() error {
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			if err := b.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "other"}, dgd); err != nil {
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
	},
		Entry("the status of a scaling group", SpecTimeout(suite.Timeout()), false, patchOf("scalinggroups", "/status")),
		Entry("the release of a pod", SpecTimeout(suite.Timeout()), true, patchOf("pods", "-0")),
		Entry("the create of a pod that stores nothing", SpecTimeout(suite.Timeout()), false, trial),
	)
})
