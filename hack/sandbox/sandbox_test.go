// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// startSandbox brings a sandbox up in a directory of the test and takes it down at its end.
func startSandbox(t *testing.T, opts Options) *Sandbox {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	opts.Dir = filepath.Join(shortTempDir(t), opts.Name)
	opts.Progress = progress.Lines(t.Output(), time.Now)
	s, err := Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(context.Background()); err != nil && !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
	return s
}

// shortTempDir is for sockets, whose paths may not be long.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mustClient(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func mustContain(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

// eventually waits for something in the cluster.
func eventually(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience.Limit(), true, check); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func gpuPod(name string, gpus int64) *corev1.Pod {
	limits := corev1.ResourceList{simulated.GPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/none", Resources: corev1.ResourceRequirements{Limits: limits},
		}}},
	}
}

func TestSandbox(t *testing.T) {
	s := startSandbox(t, Options{Name: "one", Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 2, GPUs: 8}})
	ctx := t.Context()
	client, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")

	if _, err := pods.Create(ctx, gpuPod("first", 8), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var node string
	eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "first", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		node = pod.Spec.NodeName
		return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" && pod.Status.ContainerStatuses[0].Ready, nil
	})

	t.Run("a dead node", func(t *testing.T) { testDeadNode(t, s, client, node) })
	t.Run("a node more", func(t *testing.T) { testMoreNodes(t, s, client) })
	t.Run("up again", func(t *testing.T) {
		again, err := Up(ctx, Options{Name: "one", Dir: s.Dir()})
		if !errors.Is(err, ErrRunning) || again.Kubeconfig() != s.Kubeconfig() {
			t.Errorf("Up on a running sandbox: %v, want ErrRunning", err)
		}
	})
	t.Run("a second sandbox", func(t *testing.T) { testSecond(t, s) })
	t.Run("up after a crash", func(t *testing.T) { testCrash(t, s) })
	t.Run("down", func(t *testing.T) { testDown(t, s) })
}

// testDeadNode: taints follow, a deleted pod stays until the kubelet is back.
func testDeadNode(t *testing.T, s *Sandbox, client kubernetes.Interface, node string) {
	ctx := t.Context()
	if err := s.StopKubelet(ctx, node); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is tainted", func(ctx context.Context) (bool, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil && strings.Contains(notUsable(n), corev1.TaintNodeUnreachable), err
	})
	if err := client.CoreV1().Pods("default").Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// A pod elsewhere shows that kwok has had its time.
	if _, err := client.CoreV1().Pods("default").Create(ctx, gpuPod("second", 8), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other node still works", func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "second", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName != node, err
	})
	if _, err := client.CoreV1().Pods("default").Get(ctx, "first", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod of a dead node should stay: %v", err)
	}
	if err := s.StartKubelet(ctx, node); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deleted pod has gone", func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 1, err
	})
}

func testMoreNodes(t *testing.T, s *Sandbox, client kubernetes.Interface) {
	ctx := t.Context()
	if err := s.AddNodes(ctx, simulated.NewNode("extra", 16, map[string]string{simulated.ZoneKey: "zone-9"})); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("default").Create(ctx, gpuPod("large", 16), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new node is used", func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "large", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName == "extra", err
	})
}

// testSecond: two sandboxes share nothing, and the provider's APIs are served where they were asked for only.
func testSecond(t *testing.T, first *Sandbox) {
	second := startSandbox(t, Options{Name: "two", Shape: simulated.Shape{Zones: 2, Blocks: 1, Racks: 1, Hosts: 1}, Provider: PodGroup})
	for _, c := range []struct {
		s      *Sandbox
		nodes  int
		served bool
	}{{first, 3, false}, {second, 2, true}} {
		client, err := c.s.client()
		if err != nil {
			t.Fatal(err)
		}
		if st := c.s.Status(t.Context()); !st.Running || st.Nodes != c.nodes || st.NodesReady != c.nodes {
			t.Errorf("%s: %+v, want %d nodes and all running", c.s.Name(), st, c.nodes)
		}
		_, err = client.Discovery().ServerResourcesForGroupVersion("scheduling.k8s.io/v1alpha3")
		if served := err == nil; served != c.served {
			t.Errorf("%s: PodGroup APIs served: %v (%v), want %v", c.s.Name(), served, err, c.served)
		}
	}
}

// testCrash: a sandbox that lost a process is replaced by a fresh one, with no process left of the old one.
func testCrash(t *testing.T, s *Sandbox) {
	ctx := t.Context()
	if err := s.StopComponent(ctx, scheduler); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(ctx); st.Running {
		t.Error("status says running without a scheduler")
	}
	old, err := proc.LoadAll(s.path(pidDir))
	if err != nil || len(old) != len(Components)-1 {
		t.Fatalf("found %d processes: %v", len(old), err)
	}
	fresh, err := Up(ctx, Options{Name: "one", Dir: s.Dir(), Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range old {
		if p.Alive() {
			t.Errorf("%s of the old sandbox is still there", p.Name)
		}
	}
	if st := fresh.Status(ctx); !st.Running || st.Nodes != 1 {
		t.Errorf("status %+v, want a fresh sandbox with one node", st)
	}
}

func testDown(t *testing.T, s *Sandbox) { testDownOf(t, s, len(Components)) }

// testDownOf: Down ends what has a pid file, of which there are so many, and leaves nothing.
func testDownOf(t *testing.T, s *Sandbox, processes int) {
	t.Helper()
	running := s.processes()
	if len(running) != processes {
		t.Errorf("%d processes, want %d", len(running), processes)
	}
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range running {
		if p.Alive() {
			t.Errorf("%s (pid %d) survived", p.Name, p.PID)
		}
	}
	if left := proc.FindByEnv(envMark + "=" + s.Dir()); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir(), err)
	}
	if err := s.Down(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("a second Down: %v, want ErrNotFound", err)
	}
}
