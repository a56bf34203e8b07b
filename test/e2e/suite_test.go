// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e plays scenarios on real control planes: a real API server, kube-scheduler and controller manager, simulated kubelets, and the operator as
// a process of its own with the rights of its own service account and its webhooks behind real TLS.
//
// # The language of scenarios
//
//	w := newWorld(ctx, "scale-out", racks(2, 8, "a/r0", "a/r1", "b/r0")...)
//	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
//	w.ready("g")
//	Expect(w.of("Worker")).To(w.bePlacedIn("rack", "b/r0"))
//
// A world is the part of a cluster that a spec has for itself: a namespace, a pool of nodes and a ClusterTopology (zone, rack, host) over them, all of
// one name. No other spec may use that name. Its hosts are simulated nodes; racks(2, 8, "a/r0") are two with 8 GPUs each in rack r0 of zone a, with the
// names a-r0-0 and a-r0-1. A graph is a DynamoGraphDeployment: graphOf("g", "zone", ...) is packed into a zone, worker(1, 2, 8, "rack") is a component of
// one replica with two pods of 8 GPUs each, in one rack. Pods of others take capacity by occupy. What a scenario expects after a while, it waits for:
// ready, hasCondition, hasEvent, and until for everything else. Waits end by what they wait for, or after suite.Patience.
//
// An observer (follow) sees every state of the world's pods while a scenario continues, and fails it for what must never be, even for a moment. The
// auditor of the soak does this for many graphs, and compares what is said of them with what is.
//
// # Sandboxes
//
// Specs share a sandbox where they can (sharedSandbox), also between the processes of ginkgo: several on one machine would cost more than their specs do,
// and worlds keep specs apart. A spec that has the operator, its webhooks or its definitions go away has a sandbox of its own (newEnvironment), or runs
// alone (Serial). Specs wait more than they compute, so the Makefile starts several processes for each CPU.
//
// Labels: core is part of make test, faults of make test-faults. soak and manifests are targets of their own; make test-all runs a small form of both.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// requeueAfter is shorter than in production, so that the scenario of a gang that cannot bind is short. It is longer than a busy machine takes to bind
// what was released: a gang that is requeued meanwhile is evicted, and its scenario is another one.
const requeueAfter = 20 * time.Second

// Labels of specs that have a target of their own.
var (
	labelSoak      = Label("soak")
	labelManifests = Label("manifests")
)

func TestE2E(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves the scenarios out")
	}
	suite.Run(t, "Scenarios", suite.OnlyCore)
}

// common is what the first process has for all of them.
var common struct {
	// Scratch is the directory of the shared sandboxes. It is removed at the end.
	Scratch string
	// Converter is where objects are converted in the sandboxes that have no operator.
	Converter conversion.Address
}

// converter is that server, in the first process, which is the last to end.
var converter *conversion.Server

var _ = SynchronizedBeforeSuite(func() []byte {
	var err error
	common.Scratch, err = os.MkdirTemp("", "trellis-e2e")
	Expect(err).NotTo(HaveOccurred())
	converter = conversion.Serve()
	common.Converter = converter.Address()
	data, err := json.Marshal(common)
	Expect(err).NotTo(HaveOccurred())
	return data
}, func(data []byte) {
	Expect(json.Unmarshal(data, &common)).To(Succeed())
})

var _ = SynchronizedAfterSuite(func() {}, func(ctx SpecContext) {
	var problems []error
	for _, s := range sharedSandboxes {
		problems = append(problems, s.end(ctx))
	}
	if converter != nil {
		converter.Close()
	}
	problems = append(problems, os.RemoveAll(common.Scratch))
	Expect(errors.Join(problems...)).To(Succeed())
	Expect(rights.Of("e2e").Finish(0)).To(BeZero(), "the operator's requests are not as its rights: see above")
}, NodeTimeout(suite.Timeout()))

// keepLogs leaves the logs of a manager and of the control plane where they can be read after the sandbox has gone.
func keepLogs(s *sandbox.Sandbox) {
	for _, name := range append(slices.Clone(sandbox.Components), sandbox.DefaultManager) {
		if logs, err := os.ReadFile(s.LogFile(name)); err == nil {
			_ = os.WriteFile(filepath.Join(os.TempDir(), "trellis-e2e-"+s.Name()+"-"+name+".log"), logs, 0o600)
		}
	}
}

func newClient(s *sandbox.Sandbox) (client.WithWatch, error) {
	restConfig, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	restConfig.QPS, restConfig.Burst = 500, 1000
	out, err := client.NewWithWatch(restConfig, client.Options{Scheme: operator.NewScheme()})
	if err != nil {
		return nil, err
	}
	return patient(out), nil
}

func key(ns, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: ns, Name: name}
}

// patiently repeats a read that the API server did not answer: on a busy machine it resets a stream now and then. What it answers counts.
func patiently(ctx context.Context, do func() error) error {
	return repeat(ctx, func(err error) bool {
		return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.Is(err, context.Canceled) && !meta.IsNoMatchError(err)
	}, nil, do)
}

func get[T client.Object](w *world, o T, ns, name string) T {
	w.t.Helper()
	if err := patiently(w.t.Context(), func() error { return w.c.Get(w.t.Context(), key(ns, name), o) }); err != nil {
		w.t.Fatalf("getting %T %s/%s: %v", o, ns, name, err)
	}
	return o
}

func list[T client.ObjectList](w *world, l T) T {
	w.t.Helper()
	if err := patiently(w.t.Context(), func() error { return w.c.List(w.t.Context(), l, client.InNamespace(w.name)) }); err != nil {
		w.t.Fatalf("listing %T: %v", l, err)
	}
	return l
}
