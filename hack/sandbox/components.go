// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// Names of the programs of the control plane.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
)

// Components are the programs of every sandbox in start order.
var Components = []string{etcd, apiServer, controllerManager, scheduler, kwok}

//go:embed conf
var confFiles embed.FS

const (
	podGroupGates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
	podGroupAPIs  = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"

	// envMark is an environment variable of every process of a sandbox; its value is the directory of the sandbox.
	envMark = "TRELLIS_SANDBOX_DIR"

	startTimeout = 3 * time.Minute // long enough for a busy machine
	logLines     = 12

	// probeNoise is the log line of a manager for a readiness probe that comes too early.
	probeNoise = "healthz check failed"
)

// etcdArgs are the flags of etcd. It does not sync to disk, because a sandbox does not need to survive a power failure, and it listens on
// Unix sockets instead of ports, so that nobody else on the machine can reach it.
var etcdArgs = []string{
	"--name=sandbox", "--data-dir=" + etcdDir, "--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=8589934592",
	"--listen-client-urls=unix://" + etcdSocket, "--advertise-client-urls=unix://" + etcdSocket,
	"--listen-peer-urls=unix://" + peerSocket, "--initial-advertise-peer-urls=unix://" + peerSocket, "--initial-cluster=sandbox=unix://" +
		peerSocket,
}

// args are the flags of a component. All paths are relative to the directory of the sandbox, which is the working directory of every
// component: the path of a Unix socket must be short.
func (s *Sandbox) args(name string) []string {
	secure := []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", s.port(name)),
		"--tls-cert-file=" + servingCertFile, "--tls-private-key-file=" + servingKeyFile, "--profiling=false",
	}
	var gates, apis []string
	if s.state.Provider == PodGroup {
		gates, apis = []string{podGroupGates}, []string{podGroupAPIs}
	}
	switch name {
	case etcd:
		return etcdArgs
	case apiServer:
		return slices.Concat(secure, gates, apis, s.auditArgs(), s.realServerArgs(), []string{
			"--etcd-servers=unix://" + etcdSocket, "--client-ca-file=" + caFile, "--allow-privileged=true",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + tokenKeyFile,
			"--service-account-signing-key-file=" + tokenKeyFile, "--service-cluster-ip-range=10.96.0.0/16",
			"--endpoint-reconciler-type=none", // the address of the API server is a loopback address, which Endpoints must not contain
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		})
	case controllerManager:
		return slices.Concat(secure, gates, s.nodeMonitorArgs(), []string{
			"--kubeconfig=" + componentKubeconfig(name), "--leader-elect=false", "--use-service-account-credentials",
			"--service-account-private-key-file=" + tokenKeyFile, "--root-ca-file=" + caFile, "--kube-api-qps=1000", "--kube-api-burst=2000",
			"--controllers=*,-ttl-controller,-node-ipam-controller",       // these controllers write to every node
			"--concurrent-gc-syncs=20", "--concurrent-namespace-syncs=10", // for bursts of deletions
		})
	case scheduler:
		return slices.Concat(secure, gates, []string{"--config=" + confDir + "/kube-scheduler.yaml"})
	case kwok:
		return []string{
			"--kubeconfig=" + componentKubeconfig(name), "--config=" + confDir + "/kwok.yaml",
			"--manage-all-nodes=false", "--manage-nodes-with-label-selector=" + kubeletLabel + " notin (" + kubeletStopped + "," + kubeletReal + ")",
			"--cidr=10.128.0.0/9", "--node-ip=172.31.255.254", fmt.Sprintf("--node-lease-duration-seconds=%d", s.simulatedLease()),
			fmt.Sprintf("--server-address=127.0.0.1:%d", s.port(name)),
		}
	}
	return nil
}

// auditArgs are the audit flags of the API server.
func (s *Sandbox) auditArgs() []string {
	if !s.state.Audit {
		return nil
	}
	return []string{"--audit-policy-file=" + cmp.Or(s.state.AuditPolicy, confDir+"/audit.yaml"), "--audit-log-path=" + auditFile}
}

// AuditFile is the audit log of the API server, one line per entry. It exists with Options.Audit, and logs the requests of the operator
// unless Options.AuditPolicy selects others.
func (s *Sandbox) AuditFile() string { return s.path(auditFile) }

// users are the user and the groups of each component. RBAC has roles for the names of the first two.
var users = map[string][]string{
	controllerManager: {"system:kube-controller-manager"},
	scheduler:         {"system:kube-scheduler"},
	kwok:              {"system:kwok", "system:masters"},
}

func componentKubeconfig(name string) string { return confDir + "/" + name + ".kubeconfig" }

// writeConf writes the embedded configuration files.
func (s *Sandbox) writeConf() error {
	entries, err := confFiles.ReadDir("conf")
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := confFiles.ReadFile("conf/" + e.Name())
		if err != nil {
			return err
		}
		if err := writeFile(s.path(confDir, e.Name()), data); err != nil {
			return err
		}
	}
	return nil
}

// StartComponent starts a component of the control plane and waits until it serves. Up starts all components; StartComponent is
// for tests that stopped one.
func (s *Sandbox) StartComponent(ctx context.Context, name string) error {
	p, err := s.launch(name)
	if err != nil {
		return err
	}
	return s.ready(ctx, p)
}

// StopComponent ends a component of the control plane with SIGKILL.
func (s *Sandbox) StopComponent(ctx context.Context, name string) error {
	p, err := proc.Load(s.pidFile(name))
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	return p.Kill(ctx)
}

// startFirst starts a component on a free port. It tries another port when another program took the port first.
func (s *Sandbox) startFirst(ctx context.Context, name string) error {
	for try := 1; ; try++ {
		if name != etcd {
			if err := s.takePort(name); err != nil {
				return err
			}
		}
		err := s.StartComponent(ctx, name)
		if err == nil || try == portTries || !lostPort(s.LogFile(name)) || os.Remove(s.LogFile(name)) != nil {
			return err
		}
	}
}

func (s *Sandbox) launch(name string) (*proc.Process, error) {
	return proc.Start(proc.Spec{
		Name: name, Path: filepath.Join(s.state.Assets, name), Args: s.args(name), Env: s.environment(),
		Dir: s.dir, LogFile: s.LogFile(name), PIDFile: s.pidFile(name),
	})
}

// environment is the environment of this process without variables that would mislead a component: proxies, since webhooks are on this
// machine, and the kubeconfig of the user.
func (s *Sandbox) environment() []string {
	env := []string{envMark + "=" + s.dir}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "KUBECONFIG", envMark:
		default:
			env = append(env, e)
		}
	}
	return env
}

// ready waits until a process serves. When the process ends first, the error contains the end of its log.
func (s *Sandbox) ready(ctx context.Context, p *proc.Process) error {
	client, err := s.probeClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return waitServing(ctx, p, 50*time.Millisecond, func(ctx context.Context) error { return s.probe(ctx, client, p.Name) })
}

// waitServing waits until the probe of a process succeeds.
func waitServing(ctx context.Context, p *proc.Process, interval time.Duration, probe func(context.Context) error) error {
	last := errors.New("not asked yet")
	err := wait.PollUntilContextTimeout(ctx, interval, startTimeout, true, func(ctx context.Context) (bool, error) {
		if !p.Alive() {
			return false, errors.New("it has ended")
		}
		last = probe(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if wait.Interrupted(err) {
		err = fmt.Errorf("%w; its last answer: %w", err, last)
	}
	return fmt.Errorf("waiting for %s: %w; the end of its log %s:\n%s", p.Name, err, p.LogFile, proc.Tail(p.LogFile, logLines, probeNoise))
}

// probe checks whether a component serves.
func (s *Sandbox) probe(ctx context.Context, client *http.Client, name string) error {
	switch name {
	case etcd:
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.path(etcdSocket))
		if err != nil {
			return err
		}
		return conn.Close()
	case kwok:
		return get(ctx, client, fmt.Sprintf("http://127.0.0.1:%d/healthz", s.port(kwok)))
	case controllerManager:
		return get(ctx, client, s.url(name)+"/healthz")
	default:
		return get(ctx, client, s.url(name)+"/readyz")
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 2048))
		return fmt.Errorf("%s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// probeClient is an HTTP client that trusts the certificate authority of the sandbox. It needs no credentials: /readyz and /healthz
// allow anonymous requests.
func (s *Sandbox) probeClient() (*http.Client, error) {
	ca, err := os.ReadFile(s.path(caFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}, nil
}
