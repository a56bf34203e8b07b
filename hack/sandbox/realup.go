// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// The network of the real nodes exists only in their network namespaces, so that it may use any addresses except those of
// Services and simulated pods.
const (
	switchAddress = "10.65.0.1"
	apiService    = "10.96.0.1"
	egressFile    = confDir + "/egress.yaml"
	corefile      = confDir + "/Corefile"
	imagesDir     = nodesDir + "/images"
	// nodeMark is an environment variable of every process of a real node, except those of its pods; its value is the folder of the node.
	nodeMark = "TRELLIS_SANDBOX_NODE"
	// nodesInRack is the number of real nodes in a rack.
	nodesInRack = 2
)

// corefileText is the Corefile of kubeadm up to 1.30, with the cache settings of CoreDNS' documentation.
const corefileText = `.:53 {
  bind %[1]s
  errors
  health %[1]s:8080
  ready %[1]s:8181
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %[2]s
    pods insecure
    ttl 30
  }
  cache 30
}
`

func nodeIP(index int) string       { return fmt.Sprintf("10.65.0.%d", 10+index) }
func podNetwork(index int) string   { return fmt.Sprintf("10.64.%d.0/24", index) }
func nodeFolder(name string) string { return nodesDir + "/" + name }

// addRealNodes starts the network of the real nodes, the DNS server and the nodes, and waits until they are usable.
func (s *Sandbox) addRealNodes(ctx context.Context, a *authority, opts Options) error {
	if s.state.Real == nil {
		return nil
	}
	opts.Progress.Say("starting %d real nodes", s.state.Real.Count)
	if err := s.writeImages(opts.Real); err != nil {
		return fmt.Errorf("making images: %w", err)
	}
	if err := s.startSwitch(ctx); err != nil {
		return err
	}
	if err := s.startDNS(a); err != nil {
		return err
	}
	for _, name := range s.RealNodes() {
		if err := s.writeNodeKubeconfig(a, nodeFolder(name)+"/root/conf/kubeconfig", "system:node:"+name, "system:nodes"); err != nil {
			return err
		}
		if err := s.BootNode(name); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.waitForDNS(ctx) })
	group.Go(func() error { return s.waitForRealNodes(ctx, s.RealNodes()...) })
	return group.Wait()
}

// startSwitch starts the process node-switch, which makes the network of the nodes, and waits until it forwards connections.
func (s *Sandbox) startSwitch(ctx context.Context) error {
	p, err := proc.Start(proc.Spec{
		Name: binaries.NodeSwitch, Path: filepath.Join(s.state.Real.Programs.Dir, binaries.NodeSwitch),
		Args: []string{"--address=" + switchAddress + "/24", "--service=" + apiService, "--api=" + local(s.port(apiServer)),
			"--socket=" + s.path(nodeSocket)},
		Env: s.environment(), Dir: s.dir, LogFile: s.LogFile(binaries.NodeSwitch), PIDFile: s.pidFile(binaries.NodeSwitch),
	})
	if err != nil {
		return err
	}
	return waitServing(ctx, p, 50*time.Millisecond, func(ctx context.Context) error {
		conn, err := s.DialNodes(ctx, "tcp", net.JoinHostPort(switchAddress, "6443"))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// startDNS starts CoreDNS in the network of the nodes.
func (s *Sandbox) startDNS(a *authority) error {
	kubeconfig := componentKubeconfig(binaries.CoreDNS)
	if err := s.writeNodeKubeconfig(a, kubeconfig, "system:coredns", "system:masters"); err != nil {
		return err
	}
	if err := writeFile(s.path(corefile), fmt.Appendf(nil, corefileText, switchAddress, s.path(kubeconfig))); err != nil {
		return err
	}
	return s.StartDNS()
}

// StartDNS starts the DNS server of the nodes with its current Corefile. Up starts it as well.
func (s *Sandbox) StartDNS() error {
	gateway, err := proc.Load(s.pidFile(binaries.NodeSwitch))
	if err != nil {
		return err
	}
	_, err = proc.Start(proc.Spec{
		Name: binaries.CoreDNS, Path: "/usr/bin/nsenter",
		Args: []string{fmt.Sprintf("--net=/proc/%d/ns/net", gateway.PID), s.state.Real.Programs.CoreDNS, "-conf", s.path(corefile)},
		Env:  s.environment(), Dir: s.dir, LogFile: s.LogFile(binaries.CoreDNS), PIDFile: s.pidFile(binaries.CoreDNS),
	})
	return err
}

// writeNodeKubeconfig writes a kubeconfig for a user in the network of the nodes.
func (s *Sandbox) writeNodeKubeconfig(a *authority, file, user string, groups ...string) error {
	id, err := a.client(user, groups...)
	if err != nil {
		return err
	}
	cluster := &clientcmdapi.Cluster{Server: "https://" + net.JoinHostPort(switchAddress, "6443"), TLSServerName: "kubernetes"}
	return s.writeKubeconfigFor(cluster, file, &clientcmdapi.AuthInfo{ClientCertificateData: id.cert, ClientKeyData: id.key})
}

// BootNode starts a crashed real node: with its disk unchanged, and without its former processes, mounts and interfaces.
func (s *Sandbox) BootNode(name string) error {
	gateway, err := proc.Load(s.pidFile(binaries.NodeSwitch))
	if err != nil {
		return err
	}
	index, routes := 0, []string{}
	for i, other := range s.RealNodes() {
		if other == name {
			index = i
			continue
		}
		routes = append(routes, podNetwork(i)+"="+nodeIP(i))
	}
	labels := []string{
		kubeletLabel + "=" + kubeletReal, simulated.ZoneKey + "=real", simulated.BlockKey + "=block-0",
		fmt.Sprintf("%s=rack-%d", simulated.RackKey, index/nodesInRack),
	}
	_, err = proc.Start(proc.Spec{
		Name: name, Path: filepath.Join(s.state.Real.Programs.Dir, binaries.NodeInit), Namespaced: true,
		Args: []string{
			"--name=" + name, "--dir=" + s.path(nodeFolder(name)), "--address=" + nodeIP(index) + "/24", "--gateway=" + switchAddress,
			"--routes=" + strings.Join(routes, " "), "--pods=" + podNetwork(index), "--dns=" + switchAddress,
			fmt.Sprintf("--switch=%d", gateway.PID), "--programs=" + s.state.Real.Programs.Dir, "--images=" + s.path(imagesDir),
			"--logs=" + s.path(logDir), "--cgroup=" + cgroupOf(s.dir) + "/" + name, "--labels=" + strings.Join(labels, ","),
			fmt.Sprintf("--gpus=%d", s.state.Real.GPUs),
		},
		Env: append(s.environment(), nodeMark+"="+s.path(nodeFolder(name))), Dir: s.dir, LogFile: s.LogFile(name), PIDFile: s.pidFile(name),
	})
	return err
}

// waitForRealNodes waits until the real nodes are Ready and have all their GPUs.
func (s *Sandbox) waitForRealNodes(ctx context.Context, names ...string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	for _, name := range names {
		p, err := proc.Load(s.pidFile(name))
		if err != nil {
			return err
		}
		if err := waitServing(ctx, p, 100*time.Millisecond, func(ctx context.Context) error { return s.lacks(ctx, client, name) }); err != nil {
			return err
		}
	}
	return nil
}

// lacks is an error that says what a real node lacks to run pods.
func (s *Sandbox) lacks(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if why := notUsable(node); why != "" {
		return fmt.Errorf("node %s %s; logs of its programs: %s", name, why, s.path(logDir, name+"-*.log"))
	}
	if have := node.Status.Allocatable[simulated.GPU]; have.Value() != int64(s.state.Real.GPUs) {
		return fmt.Errorf("node %s has %d of %d GPUs", name, have.Value(), s.state.Real.GPUs)
	}
	return nil
}

func (s *Sandbox) waitForDNS(ctx context.Context) error {
	p, err := proc.Load(s.pidFile(binaries.CoreDNS))
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: s.DialNodes}}
	defer client.CloseIdleConnections()
	return waitServing(ctx, p, 100*time.Millisecond, func(ctx context.Context) error {
		return get(ctx, client, "http://"+net.JoinHostPort(switchAddress, "8181")+"/ready")
	})
}
