// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// kubeletLabel on a node says who runs its kubelet. kwok simulates only nodes without the label; it leaves labeled
// nodes and their pods alone.
const (
	kubeletLabel   = "sandbox.trellis.dev/kubelet"
	kubeletStopped = "stopped"
	kubeletReal    = "real"
)

const creators = 16

// RESTConfig is the client configuration of the cluster administrator, without a client-side rate limit.
func (s *Sandbox) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Kubeconfig(), err)
	}
	config.QPS, config.UserAgent = -1, "trellis-sandbox"
	return config, nil
}

func (s *Sandbox) client() (kubernetes.Interface, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// AddNodes creates more simulated nodes and waits until they are Ready.
func (s *Sandbox) AddNodes(ctx context.Context, nodes ...corev1.Node) error {
	return s.addNodes(ctx, nodes, progress.Discard)
}

func (s *Sandbox) addNodes(ctx context.Context, nodes []corev1.Node, report progress.Func) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	present, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	now := metav1.Now()
	var created atomic.Int32
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i, n := range nodes {
		group.Go(func() error {
			full := simulate(n, len(present.Items)+i, now)
			if _, err := client.CoreV1().Nodes().Create(groupCtx, &full, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating node %s: %w", n.Name, err)
			}
			created.Add(1)
			return nil
		})
	}
	stop := reportCount(report, "creating nodes", &created, len(nodes))
	err = group.Wait()
	stop()
	if err != nil {
		return err
	}
	return waitForNodes(ctx, client, nodes, report)
}

// reportCount reports a growing count periodically until stop is called.
func reportCount(report progress.Func, text string, count *atomic.Int32, total int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(context.Context) { report.Count(text, int(count.Load()), total) }, 200*time.Millisecond)
		report.Count(text, int(count.Load()), total)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// waitForNodes waits until the nodes are Ready and the controllers have removed the taints of new nodes.
func waitForNodes(ctx context.Context, client kubernetes.Interface, nodes []corev1.Node, report progress.Func) error {
	waiting := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		waiting[n.Name] = true
	}
	var why string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		for _, n := range list.Items {
			if blocker := notUsable(&n); blocker != "" && waiting[n.Name] {
				why = fmt.Sprintf("node %s %s", n.Name, blocker)
			} else {
				delete(waiting, n.Name)
			}
		}
		report.Count("nodes ready", len(nodes)-len(waiting), len(nodes))
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d nodes, e.g. %s: %w", len(waiting), why, err)
	}
	return nil
}

// notUsable says why pods cannot be scheduled to a node; a cordon does not count.
func notUsable(n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != corev1.TaintNodeUnschedulable {
			return "has taint " + t.Key
		}
	}
	if ready := readyStatus(n); ready != corev1.ConditionTrue {
		return fmt.Sprintf("is not Ready (%s)", ready)
	}
	return ""
}

func readyStatus(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// waitForDefaultAccount waits until the namespace default has its ServiceAccount, without which no pod can be created there.
func (s *Sandbox) waitForDefaultAccount(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for ServiceAccount default/default: %w", err)
	}
	return nil
}

// StopKubelet stops the kubelet of a node. The pods of the node stay as they are, even when deleted, and the node becomes NotReady: a
// simulated node at once, as if the grace period of the node controller were over, a real node after that period. The rest of the cluster
// reacts as to any dead node.
func (s *Sandbox) StopKubelet(ctx context.Context, node string) error {
	if s.isReal(node) {
		return s.killOnNode(ctx, node, binaries.Kubelet)
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := labelKubelet(ctx, client, node, `"`+kubeletStopped+`"`); err != nil {
		return err
	}
	silent := metav1.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown",`+
		`"message":"Kubelet stopped posting node status.","lastTransitionTime":%q}]}}`, silent)
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{},
		"status"); err != nil {
		return fmt.Errorf("marking node %s NotReady: %w", node, err)
	}
	return nil
}

// StartKubelet starts the kubelet of a node again and waits until the node is Ready.
func (s *Sandbox) StartKubelet(ctx context.Context, node string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	if s.isReal(node) {
		return s.startOnNode(ctx, client, node)
	}
	if err := labelKubelet(ctx, client, node, "null"); err != nil {
		return err
	}
	return waitForNodes(ctx, client, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: node}}}, progress.Discard)
}

func labelKubelet(ctx context.Context, client kubernetes.Interface, node, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, kubeletLabel, value)
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling node %s: %w", node, err)
	}
	return nil
}
