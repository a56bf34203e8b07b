// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler proves on a real kube-scheduler that it binds gangs where they are planned. Small clusters are drawn, with all that the
// planner counts; a gang is planned on what the API server has, released pod by pod in a random order, and has to be bound on its planned
// hosts without that a pod is recreated.
//
// There is one API server, with the controllers that bind volumes and make device claims, and a kube-scheduler for each cluster, which has
// seen all of it before it binds the first pod. A constraint of spread may count all nodes, so there is one cluster at a time.
package scheduler

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var (
	api client.WithWatch
	// config is the kube-scheduler's.
	config string
)

func TestScheduler(t *testing.T) { suite.Run(t, "Scheduler", suite.Default) }

var _ = SynchronizedBeforeSuite(start, func() {})

// start brings up what the specs use, all of which run in the first process.
func start(ctx SpecContext) {
	env := &envtest.Environment{}
	server, err := apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	server.WarningHandler = rest.NoWarnings{} // drawn pods have selectors that match nothing
	DeferCleanup(func() {
		if err := env.Stop(); err != nil {
			AddReportEntry("stopping the API server", err.Error())
		}
	})
	api = suite.Connect(ctx, server, scheme.Scheme)
	dir := GinkgoT().TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	Expect(os.WriteFile(kubeconfig, env.KubeConfig, 0o600)).To(Succeed())
	config = filepath.Join(dir, "kube-scheduler.yaml")
	Expect(os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
`, kubeconfig), 0o600)).To(Succeed())
	run("kube-controller-manager", "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--controllers=persistentvolume-binder-controller,resourceclaim-controller")
	createNamespaces(ctx)
}

// run starts a program of the control plane until the spec ends, or the suite. What it logs is in the report of a spec that fails.
func run(name string, args ...string) {
	GinkgoHelper()
	logs := &tail{}
	program := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name), args...)
	program.Stdout, program.Stderr = logs, logs
	Expect(program.Start()).To(Succeed())
	DeferCleanup(func() {
		AddReportEntry(name+" logged last", logs.String(), ReportEntryVisibilityFailureOrVerbose)
		_ = program.Process.Kill()
		_ = program.Wait()
	})
}
