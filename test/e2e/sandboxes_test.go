// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/filelock"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// environment is a cluster to play scenarios on.
type environment struct {
	cluster *sandbox.Sandbox
	c       client.WithWatch
}

// sharedSandbox is a sandbox for many specs. The first spec that asks for it starts it, in whichever process that runs, and the others find it in its
// directory: what a sandbox runs outlives who started it. The first process takes it down after all specs.
type sharedSandbox struct {
	name    string
	options sandbox.Options
	// prepare is called once, by who starts it; nil does nothing.
	prepare func(context.Context, environment) error
	// opened is the sandbox as this process has it.
	opened *environment
}

var (
	// shared has the operator as a process of its own.
	shared = &sharedSandbox{name: "e2e", options: sandbox.Options{
		Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 2, GPUs: 1}, Audit: true, Manager: sandbox.ManagerOptions{Args: []string{requeueFlag}},
	}}
	// podGroups schedules pod groups, and has an operator that uses them.
	podGroups = &sharedSandbox{name: "podgroup", options: sandbox.Options{
		Provider: sandbox.PodGroup, Audit: true, Manager: sandbox.ManagerOptions{Args: []string{"--provider=PodGroup", requeueFlag}},
	}}
	// bare have everything installed and no operator process: specs run operators in their own process, each for one namespace.
	bare = map[sandbox.Provider]*sharedSandbox{
		sandbox.Gates:    {name: "bare-gates", prepare: withoutOperator},
		sandbox.PodGroup: {name: "bare-podgroup", options: sandbox.Options{Provider: sandbox.PodGroup}, prepare: withoutOperator},
	}
	// sampled has the nodes that the manifests of users were written for.
	sampled = &sharedSandbox{name: "manifests", options: sandbox.Options{Manager: sandbox.ManagerOptions{Args: []string{requeueFlag}}}, prepare: addSampleNodes}

	// withBindings is the same, and serves ClusterTopologyBindings.
	withBindings = &sharedSandbox{name: "bindings", options: sampled.options, prepare: addBindings}

	sharedSandboxes = []*sharedSandbox{shared, podGroups, bare[sandbox.Gates], bare[sandbox.PodGroup], sampled, withBindings}
)

// gateAll is the flag --gate-all-pods of the operators of the scenarios; "" is its default.
var gateAll = os.Getenv("TRELLIS_GATE_ALL_PODS")

// placing is how operators create gangs: as by default, or as TRELLIS_GATE_ALL_PODS says.
func placing() []string {
	if gateAll == "" {
		return nil
	}
	return []string{"--gate-all-pods=" + gateAll}
}

var requeueFlag = "--requeue-after=" + requeueAfter.String()

func withoutOperator(ctx context.Context, e environment) error {
	return errors.Join(e.cluster.StopManager(ctx, sandbox.DefaultManager), e.convertBy(ctx, common.Converter))
}

// open returns the sandbox, and starts it unless another spec did.
func (s *sharedSandbox) open(ctx context.Context) environment {
	GinkgoHelper()
	if s.opened == nil {
		e, err := s.find(ctx)
		Expect(err).NotTo(HaveOccurred(), "starting the sandbox %s", s.name)
		s.opened = &e
	}
	return *s.opened
}

func (s *sharedSandbox) path(name string) string { return filepath.Join(common.Scratch, s.name+name) }

// find opens the sandbox that another process started, or starts it. One that could not be started is not tried again: each spec would wait for that.
func (s *sharedSandbox) find(ctx context.Context) (environment, error) {
	unlock, err := filelock.Lock(ctx, s.path(".lock"), nil)
	if err != nil {
		return environment{}, err
	}
	defer unlock()
	problem, err := os.ReadFile(s.path(".outcome"))
	switch {
	case err != nil:
		e, err := s.start(ctx)
		outcome := ""
		if err != nil {
			outcome = err.Error()
		}
		return e, errors.Join(err, os.WriteFile(s.path(".outcome"), []byte(outcome), 0o600))
	case len(problem) > 0:
		return environment{}, fmt.Errorf("another spec could not start it: %s", problem)
	}
	cluster, err := sandbox.Open(s.path(""))
	if err != nil {
		return environment{}, err
	}
	c, err := newClient(cluster)
	return environment{cluster: cluster, c: c}, err
}

func (s *sharedSandbox) start(ctx context.Context) (environment, error) {
	options := s.options
	options.Name, options.Dir, options.Operator = s.name, s.path(""), true
	if options.Shape == (simulated.Shape{}) {
		options.Shape = simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1}
	}
	options.Manager.Args = append(placing(), options.Manager.Args...)
	cluster, err := sandbox.Up(ctx, options)
	if err != nil {
		return environment{}, err
	}
	c, err := newClient(cluster)
	e := environment{cluster: cluster, c: c}
	if err == nil && s.prepare != nil {
		err = s.prepare(ctx, e)
	}
	return e, err
}

// end takes the sandbox down, if it was started, and notes which rights its operator made use of.
func (s *sharedSandbox) end(ctx context.Context) error {
	cluster, err := sandbox.Open(s.path(""))
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.options.Audit {
		err = rights.Of("e2e").ReadAudit(cluster.AuditFile(), "system:serviceaccount:trellis-system:trellis-controller-manager")
	}
	return errors.Join(err, noPanic(cluster), cluster.Down(ctx))
}

// newEnvironment brings up a sandbox for one scenario in which the operator, its webhooks or its definitions go away.
func newEnvironment(t testing.TB, name string, change ...func(*sandbox.Options)) environment {
	t.Helper()
	options := sandbox.Options{
		Name: name, Dir: filepath.Join(t.TempDir(), "s"), Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1}, Operator: true,
	}
	for _, f := range change {
		f(&options)
	}
	options.Manager.Args = append(placing(), options.Manager.Args...)
	cluster, err := sandbox.Up(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(noPanic(cluster), cluster.Down(context.Background())); err != nil {
			t.Error(err)
		}
	})
	c, err := newClient(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return environment{cluster: cluster, c: c}
}

// asShared has a sandbox run what the shared one does.
func asShared(o *sandbox.Options) {
	o.Shape, o.Audit, o.Manager = shared.options.Shape, shared.options.Audit, shared.options.Manager
}

// describedOnFailure adds the operator's log to the report of a spec that fails.
func (e environment) describedOnFailure() {
	DeferOnFailure(func() {
		log := e.cluster.LogFile(sandbox.DefaultManager)
		AddReportEntry("the end of "+log, strings.TrimSpace(proc.Tail(log, 60)), ReportEntryVisibilityFailureOrVerbose)
		keepLogs(e.cluster)
	})
}
