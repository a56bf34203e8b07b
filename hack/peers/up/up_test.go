// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/internal/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/sandbox/proc"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// root of the repository.
var root = filepath.Join("..", "..", "..")

// patience with a deployment.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	ctrllog.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel)))
	os.Exit(m.Run())
}

// machine runs the command for one sandbox.
type machine struct {
	testing.TB
	dir string
}

// run executes the command with the sandbox's flags and returns both of its outputs.
func (m *machine) run(args ...string) (string, error) {
	cmd := exec.CommandContext(m.Context(), filepath.Join("bin", "kubectl-trellis"), append([]string{"sandbox", "--name=peers-up", "--dir=" + m.dir}, args...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) mustRun(args ...string) string {
	m.Helper()
	out, err := m.run(args...)
	if err != nil {
		m.Fatalf("sandbox %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// providers have a flag, programs that status lists, and what says of a worker's pod that it is theirs.
var providers = map[sandbox.Provider]struct {
	annotations map[string]string
	programs    []string
	theirs      func(pod *corev1.Pod) bool
}{
	sandbox.KAI: {
		programs: []string{"kai-scheduler", "kai-binder", "kai-podgrouper", "kai-podgroupcontroller", "kai-queuecontroller"},
		theirs:   func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == "kai-scheduler" },
	},
	sandbox.Grove: {
		programs: []string{"kai-scheduler", "grove-operator"},
		theirs:   func(pod *corev1.Pod) bool { return pod.Labels["grove.io/podclique"] != "" },
	},
	sandbox.LeaderWorkerSet: {
		annotations: map[string]string{graph.AnnotationWorkload: "LeaderWorkerSet"}, programs: []string{"lws"},
		theirs: func(pod *corev1.Pod) bool { return pod.Labels["leaderworkerset.sigs.k8s.io/name"] != "" },
	},
}

// TestUp: a deployment that names no provider gets ready under the one of the flag; status lists its programs; down leaves nothing.
func TestUp(t *testing.T) {
	chosen := peers.Chosen()
	for provider, tc := range providers {
		if !slices.Contains(chosen, string(provider)) {
			continue
		}
		t.Run(string(provider), func(t *testing.T) {
			if _, err := peers.Find(root, peers.Needed(provider)...); err != nil {
				t.Skip(err)
			}
			m := newMachine(t)
			up := []string{"up", "--provider=" + string(provider), "--zones=1", "--blocks=1", "--racks=1", "--hosts=2"}
			m.mustRun(up...)
			m.becomesReady(tc.annotations, tc.theirs)
			status := m.mustRun("status")
			for _, program := range tc.programs {
				if !strings.Contains(status, program) {
					t.Errorf("status does not list %s:\n%s", program, status)
				}
			}
			m.refusesAnother(up)
			m.lose(tc.programs[0])
			m.endsWhole()
		})
	}
}

func newMachine(t *testing.T) *machine {
	dir, err := os.MkdirTemp("", "peers-up") // short, for a socket's sake
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{TB: t, dir: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		if t.Failed() {
			_ = os.CopyFS(filepath.Join(dir, "logs"), os.DirFS(filepath.Join(m.dir, "logs")))
			t.Log("the logs are in ", dir)
		} else {
			defer os.RemoveAll(dir)
		}
		if err := sandbox.Down(context.Background(), m.dir); err != nil && !errors.Is(err, sandbox.ErrNotFound) {
			t.Error(err)
		}
	})
	return m
}

// becomesReady creates a deployment and waits until it is Ready with pods of the provider.
func (m *machine) becomesReady(annotations map[string]string, theirs func(*corev1.Pod) bool) {
	m.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(m.dir, "kubeconfig"))
	if err != nil {
		m.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: operator.NewScheme()})
	if err != nil {
		m.Fatal(err)
	}
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", Annotations: annotations},
		Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: graphs.Services{"Worker": graphs.Worker(1, 2, 8, "")}},
	}
	if err := api.Create(m.Context(), dgd); err != nil {
		m.Fatal(err)
	}
	var last error
	err = wait.PollUntilContextTimeout(m.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = api.Get(ctx, client.ObjectKeyFromObject(dgd), dgd)
		if last == nil && !meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady) {
			last = fmt.Errorf("its conditions are %+v", dgd.Status.Conditions)
		}
		return last == nil, nil
	})
	if err != nil {
		m.Fatalf("waiting until the deployment is Ready: %v", last)
	}
	pods := &corev1.PodList{}
	if err := api.List(m.Context(), pods, client.InNamespace("default"), client.HasLabels{graph.LabelGraph}); err != nil {
		m.Fatal(err)
	}
	if len(pods.Items) != 2 {
		m.Errorf("%d pods, want 2", len(pods.Items))
	}
	for i := range pods.Items {
		if !theirs(&pods.Items[i]) {
			m.Errorf("pod %s is not the provider's: scheduler %s, labels %v", pods.Items[i].Name, pods.Items[i].Spec.SchedulerName, pods.Items[i].Labels)
		}
	}
}

// refusesAnother: a second sandbox with the same ports is refused before anything starts.
func (m *machine) refusesAnother(up []string) {
	m.Helper()
	other := &machine{TB: m.TB, dir: m.dir + "2"}
	out, err := other.run(up...)
	if err == nil || !strings.Contains(out, "is in use") {
		m.Errorf("a second sandbox: %v: %s, want a refusal for a port", err, out)
	}
	if _, err := os.Stat(other.dir); !errors.Is(err, os.ErrNotExist) {
		m.Errorf("the refused sandbox left %s: %v", other.dir, err)
	}
}

// lose kills a program, which status has to say.
func (m *machine) lose(program string) {
	m.Helper()
	p, err := proc.Load(filepath.Join(m.dir, "run", program+".pid"))
	if err != nil {
		m.Fatal(err)
	}
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		m.Fatal(err)
	}
	if err := errors.Join(handle.Kill(), p.Wait(m.Context())); err != nil {
		m.Fatal(err)
	}
	if out, err := m.run("status"); err == nil || !strings.Contains(out, "stopped") {
		m.Errorf("status with a dead program: %v: %s", err, out)
	}
}

// endsWhole takes the sandbox down and looks for what it left.
func (m *machine) endsWhole() {
	m.Helper()
	running, err := proc.LoadAll(filepath.Join(m.dir, "run"))
	if err != nil || len(running) < len(sandbox.Components) {
		m.Fatalf("%d processes are recorded: %v", len(running), err)
	}
	m.mustRun("down")
	for _, p := range running {
		if p.Alive() {
			m.Errorf("%s (pid %d) survived", p.Name, p.PID)
		}
	}
	if _, err := os.Stat(m.dir); !errors.Is(err, os.ErrNotExist) {
		m.Errorf("%s is still there: %v", m.dir, err)
	}
}
