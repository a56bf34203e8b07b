// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e plays scenarios on a real control plane: a real API server, kube-scheduler and controller manager, simulated kubelets, and
// the operator as a process of its own with the rights of its own service account and its webhooks behind real TLS.
//
// Every scenario has a pool of nodes of its own, described by a ClusterTopology with a node selector, so scenarios run side by side.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/test/rights"
)

// requeueAfter is shorter than in production, so that the scenario of a gang that cannot bind is short. It is longer than a busy machine takes to bind
// what was released: a gang that is requeued meanwhile is evicted, and its scenario is another one.
const requeueAfter = 20 * time.Second

// environment is a cluster to play scenarios on.
type environment struct {
	cluster *sandbox.Sandbox
	c       client.WithWatch
}

// shared is the cluster with the operator as a process of its own.
var shared environment

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipping the end-to-end scenarios: -short")
		return
	}
	// Scenarios wait more than they compute: there are several for each CPU.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		log.Fatal(err)
	}
	ctrllog.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel), zap.StacktraceLevel(zapcore.PanicLevel), zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

// scratch is the directory of all sandboxes of this package. It is removed at the end.
var scratch string

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	var err error
	if scratch, err = os.MkdirTemp("", "trellis-e2e"); err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(scratch)
	cluster, err := sandbox.Up(ctx, sandbox.Options{
		Name: "e2e", Dir: filepath.Join(scratch, "s"), Shape: sandbox.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 2, GPUs: 1},
		Operator: true, Audit: true, Manager: sandbox.ManagerOptions{Args: []string{"--requeue-after=" + requeueAfter.String()}},
	})
	if err != nil {
		log.Print("bringing the sandbox up: ", err)
		return 1
	}
	defer func() {
		if code != 0 {
			keepLog(cluster, "trellis-e2e-manager.log")
			keepLog(podGroupCluster.cluster, "trellis-e2e-podgroup-manager.log")
		}
		if err := errors.Join(noteRights(cluster), cluster.Down(context.Background()), tearDownPodGroups(context.Background()), tearDownBare(context.Background())); err != nil {
			log.Print("taking the sandbox down: ", err)
			code = 1
		}
		code = rights.Of("e2e").Finish(code)
	}()
	shared = environment{cluster: cluster, c: newClient(cluster)}
	return m.Run()
}

// noteRights notes which rights the operator of a cluster made use of.
func noteRights(s *sandbox.Sandbox) error {
	return rights.Of("e2e").ReadAudit(s.AuditFile(), "system:serviceaccount:trellis-system:trellis-controller-manager")
}

// keepLog leaves a manager's log where it can be read after the sandbox has gone.
func keepLog(s *sandbox.Sandbox, name string) {
	if s == nil {
		return
	}
	if logs, err := os.ReadFile(s.LogFile(sandbox.DefaultManager)); err == nil {
		_ = os.WriteFile(filepath.Join(os.TempDir(), name), logs, 0o600)
	}
}

func newClient(s *sandbox.Sandbox) client.WithWatch {
	restConfig, err := s.RESTConfig()
	if err != nil {
		log.Fatal(err)
	}
	restConfig.QPS, restConfig.Burst = 500, 1000
	out, err := client.NewWithWatch(restConfig, client.Options{Scheme: operator.NewScheme()})
	if err != nil {
		log.Fatal(err)
	}
	return patient(out)
}

func key(ns, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: ns, Name: name}
}

// patiently repeats a read that the API server did not answer: on a busy machine it resets a stream now and then. What it answers counts.
func patiently(do func() error) error {
	return retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.Is(err, context.Canceled)
	}, do)
}

func get[T client.Object](w *world, o T, ns, name string) T {
	w.t.Helper()
	if err := patiently(func() error { return w.c.Get(w.t.Context(), key(ns, name), o) }); err != nil {
		w.t.Fatalf("getting %T %s/%s: %v", o, ns, name, err)
	}
	return o
}

func list[T client.ObjectList](w *world, l T) T {
	w.t.Helper()
	if err := patiently(func() error { return w.c.List(w.t.Context(), l, client.InNamespace(w.name)) }); err != nil {
		w.t.Fatalf("listing %T: %v", l, err)
	}
	return l
}
