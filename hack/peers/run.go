// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-k8s/trellis/internal/sandbox"
)

// Cluster is a sandbox with the peers beside it.
type Cluster struct {
	*sandbox.Sandbox
	sources Sources
	// dir has certificates, configurations, logs.
	dir       string
	ca        string
	processes []*exec.Cmd
}

// Start installs and starts the peers beside a sandbox. dir is for certificates, kubeconfigs and logs, and is not the sandbox's.
func Start(ctx context.Context, s *sandbox.Sandbox, sources Sources, dir string) (*Cluster, error) {
	c := &Cluster{Sandbox: s, sources: sources, dir: dir}
	certificate, err := writeCertificate(c.certificates())
	if err != nil {
		return c, err
	}
	c.ca = base64.StdEncoding.EncodeToString(certificate)
	for _, p := range sources.peers {
		if err := c.start(ctx, p); err != nil {
			return c, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// certificates are below the temporary directory of the programs, where KAI's podgroupcontroller looks for them: it has no flag for that.
func (c *Cluster) certificates() string {
	return filepath.Join(c.dir, "k8s-webhook-server", "serving-certs")
}

func (c *Cluster) start(ctx context.Context, p peer) error {
	from := c.sources.Src
	if p.module != "" {
		var err error
		if from, err = moduleDir(p.module); err != nil {
			return err
		}
	}
	for _, crds := range p.crds {
		if err := c.Kubectl(nil, "apply", "--server-side", "-f", filepath.Join(from, crds)); err != nil {
			return err
		}
	}
	installed, err := c.objects(p, filepath.Join(from, p.chart))
	if err != nil {
		return err
	}
	// The API server may take a moment until it serves a new definition.
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, 30*time.Second, true, func(context.Context) (bool, error) {
		last = c.Kubectl(installed, "apply", "--server-side", "-f", "-")
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	for _, program := range p.programs {
		if err := c.launch(ctx, p, program); err != nil {
			return fmt.Errorf("starting %s: %w", program.name, err)
		}
	}
	return c.listens(ctx, p.port)
}

// objects of a peer besides its definitions, namespaces first.
func (c *Cluster) objects(p peer, dir string) ([]byte, error) {
	rendered, err := chart(c.sources.Root, dir, p)
	if err != nil {
		return nil, err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(p.namespace)
	out := []*unstructured.Unstructured{namespace}
	out = append(append(out, accounts(rendered, p.namespace)...), rendered...)
	if p.namespace == "kai-scheduler" {
		webhooks, err := objects(strings.NewReader(podGroupWebhook))
		if err != nil {
			return nil, err
		}
		out = append(out, webhooks...)
	}
	list := &bytes.Buffer{}
	for _, o := range sorted(out) {
		if err := direct(o, p.port, c.ca); err != nil {
			return nil, err
		}
		if err := json.NewEncoder(list).Encode(o.Object); err != nil {
			return nil, err
		}
	}
	return list.Bytes(), nil
}

// sorted has namespaces first, and each object once.
func sorted(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var first, rest []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, o := range objects {
		key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
		switch {
		case seen[key]:
		case o.GetKind() == "Namespace":
			first = append(first, o)
		default:
			rest = append(rest, o)
		}
		seen[key] = true
	}
	return append(first, rest...)
}

// Kubectl runs the sandbox's kubectl with this input.
func (c *Cluster) Kubectl(input []byte, args ...string) error {
	cmd := exec.Command(filepath.Join(c.Assets(), "kubectl"), append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (c *Cluster) launch(ctx context.Context, p peer, program program) error {
	kubeconfig, err := c.kubeconfig(ctx, p.namespace, program)
	if err != nil {
		return err
	}
	bin := filepath.Join(c.sources.Bin, program.name)
	if _, err := os.Stat(bin); err != nil && p.module != "" {
		if err := build(p.module, c.sources.Bin, program.name); err != nil {
			return err
		}
	}
	args := program.args
	if program.config != "" {
		file := filepath.Join(c.dir, program.name+".yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(program.config, "DIR", c.certificates())), 0o600); err != nil {
			return err
		}
		args = append(args, "--config="+file)
	}
	log, err := os.Create(c.PeerLog(program.name))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, c.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "TMPDIR="+c.dir, "NAMESPACE="+p.namespace, "POD_NAMESPACE="+p.namespace, "GROVE_INIT_CONTAINER_IMAGE=grove-initc")
	if err := cmd.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, cmd)
	return nil
}

// PeerLog is the file that has what a program writes.
func (c *Cluster) PeerLog(program string) string { return filepath.Join(c.dir, program+".log") }

// kubeconfig with the rights of a program's ServiceAccount.
func (c *Cluster) kubeconfig(ctx context.Context, namespace string, program program) (string, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return "", err
	}
	life := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, program.account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, program.name+".kubeconfig")
	ca := config.CAData
	if len(ca) == 0 {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return "", err
		}
	}
	return file, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
	}, file)
}

// listens waits until somebody answers on a port.
func (c *Cluster) listens(ctx context.Context, port int) error {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false, nil //nolint:nilerr // nobody listens yet
		}
		return true, conn.Close()
	})
	if err != nil {
		return fmt.Errorf("nobody listens on %s; the logs are in %s", address, c.dir)
	}
	return nil
}

// Stop ends the peers; the sandbox is its owner's.
func (c *Cluster) Stop() error {
	var errs []error
	for _, cmd := range c.processes {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		_ = cmd.Wait()
	}
	c.processes = nil
	return errors.Join(errs...)
}
