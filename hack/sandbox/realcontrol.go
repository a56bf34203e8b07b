// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// wakeNode makes the first process of a node start its missing programs. It is SIGUSR1 on Linux.
const wakeNode = syscall.Signal(10)

// DialNodes connects to an address in the network of the real nodes, such as that of a pod.
func (s *Sandbox) DialNodes(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.path(nodeSocket))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address)
	response, err := http.ReadResponse(bufio.NewReader(bytewise{conn}), nil) //nolint:bodyclose // What follows the answer is the connection.
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to %s in the network of the nodes: %w", address, err), conn.Close())
	}
	return conn, conn.SetDeadline(time.Time{})
}

// bytewise reads one byte at a time, so that the data after the HTTP response stays in the connection.
type bytewise struct{ io.Reader }

func (b bytewise) Read(p []byte) (int, error) { return b.Reader.Read(p[:min(1, len(p))]) }

// nodeReady reports whether a node is Ready with a heartbeat after since.
func nodeReady(n *corev1.Node, since time.Time) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && c.LastHeartbeatTime.After(since)
		}
	}
	return false
}

// startOnNode starts the missing programs of a real node, such as its kubelet, and waits until the node is Ready.
func (s *Sandbox) startOnNode(ctx context.Context, client kubernetes.Interface, name string) error {
	p, err := proc.Load(s.pidFile(name))
	if err != nil {
		return err
	}
	since := time.Now().Truncate(time.Second).Add(-time.Second)
	if err := p.Signal(wakeNode); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && nodeReady(node, since) && s.lacks(ctx, client, name) == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the kubelet of node %s: %w", name, err)
	}
	return nil
}

// killOnNode kills a program of a real node.
func (s *Sandbox) killOnNode(ctx context.Context, node, program string) error {
	for _, p := range proc.FindByEnv(nodeMark + "=" + s.path(nodeFolder(node))) {
		if p.Name == program {
			return p.Kill(ctx)
		}
	}
	return fmt.Errorf("%s does not run on node %s", program, node)
}

// CrashNode kills all processes of a real node, including those of its pods.
func (s *Sandbox) CrashNode(ctx context.Context, name string) error {
	return s.end(name, func(p *proc.Process) error { return p.Kill(ctx) })
}

// BreakGPUs makes the first count GPUs of a real node unhealthy.
func (s *Sandbox) BreakGPUs(node string, count int) error {
	return os.WriteFile(s.path(nodeFolder(node), "root/conf/unhealthy-gpus"), fmt.Append(nil, count), 0o600)
}

// RefuseGPUs makes the device plugin of a real node refuse to allocate GPUs, so that the kubelet does not admit pods with
// GPUs. AdmitGPUs reverts it.
func (s *Sandbox) RefuseGPUs(node string) error {
	return os.WriteFile(s.refusingGPUs(node), nil, 0o600)
}

// AdmitGPUs reverts RefuseGPUs.
func (s *Sandbox) AdmitGPUs(node string) error { return os.RemoveAll(s.refusingGPUs(node)) }

func (s *Sandbox) refusingGPUs(node string) string {
	return s.path(nodeFolder(node), "root/conf/refusing-gpus")
}

// FillDisk restarts the kubelet of a real node with an eviction threshold that its disk exceeds: the node gets the condition
// DiskPressure, and its kubelet evicts pods and removes images. EmptyDisk reverts it.
func (s *Sandbox) FillDisk(ctx context.Context, node string) error {
	return s.restartKubelet(ctx, node, diskFree, diskFull)
}

// EmptyDisk reverts FillDisk, and waits until the node is usable again with all images.
func (s *Sandbox) EmptyDisk(ctx context.Context, node string) error {
	imported, err := filepath.Glob(s.path(nodeFolder(node), "root/var/lib/images/*"))
	if err != nil {
		return err
	}
	for _, mark := range imported {
		if err := os.Remove(mark); err != nil {
			return err
		}
	}
	if err := s.restartKubelet(ctx, node, diskFull, diskFree); err != nil {
		return err
	}
	return s.waitForRealNodes(ctx, node)
}

// Eviction thresholds in the configuration of kubelets, as the free share of the disk.
const (
	diskFree = "nodefs.available: 1%"
	diskFull = "nodefs.available: 99%"
)

// restartKubelet replaces a text in the configuration of a real node's kubelet, and restarts the kubelet.
func (s *Sandbox) restartKubelet(ctx context.Context, node, before, now string) error {
	file := s.path(nodeFolder(node), "root/conf/kubelet.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(text), before, now, 1)
	if changed == string(text) {
		return fmt.Errorf("%s has no %q", file, before)
	}
	if err := s.killOnNode(ctx, node, binaries.Kubelet); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		return err
	}
	p, err := proc.Load(s.pidFile(node))
	if err != nil {
		return err
	}
	return p.Signal(wakeNode)
}

// CutNode disconnects a real node from the network, like a broken switch. Its processes continue to run. JoinNode reconnects it.
func (s *Sandbox) CutNode(ctx context.Context, node string) error { return s.link(ctx, node, "--down") }

// JoinNode reverts CutNode.
func (s *Sandbox) JoinNode(ctx context.Context, node string) error { return s.link(ctx, node) }

func (s *Sandbox) link(ctx context.Context, node string, args ...string) error {
	gateway, err := proc.Load(s.pidFile(binaries.NodeSwitch))
	if err != nil {
		return err
	}
	args = append([]string{fmt.Sprintf("--switch=%d", gateway.PID), "--node=" + node}, args...)
	out, err := exec.CommandContext(ctx, filepath.Join(s.state.Real.Programs.Dir, binaries.NodeLink), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("changing the link of node %s: %w: %s", node, err, strings.TrimSpace(string(out)))
	}
	return nil
}
