// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Installation is a sandbox of one version of Trellis, started by that version's own program.
type Installation struct {
	c   client.Client
	dir string
	// source is the folder of the version's clone, the working directory of its program.
	source, program string
	apiServer       procfs.Proc
	// idle is the share of a core that the API server uses without requests.
	idle float64
}

// Build builds the programs of a commit of the repository at root below dir, unless they exist, and returns the folder of its source.
func Build(ctx context.Context, root, commit, dir string) (string, error) {
	source := filepath.Join(dir, commit)
	if _, err := os.Stat(filepath.Join(source, "bin", "trellis-manager")); err == nil {
		return source, nil
	}
	if err := os.MkdirAll(source, 0o750); err != nil {
		return "", err
	}
	archive, err := output(ctx, root, "git", "archive", commit)
	if err != nil {
		return "", err
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(archive)
	if said, err := unpack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking %s: %w: %s", commit, err, said)
	}
	_, err = output(ctx, source, "make", "build")
	return source, err
}

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}

// Install starts a version, with a ClusterTopology and two nodes.
func Install(ctx context.Context, source, name string) (*Installation, error) {
	dir, err := os.MkdirTemp("", "trellis-bench")
	if err != nil {
		return nil, err
	}
	i := &Installation{dir: dir, source: source, program: filepath.Join(source, "bin", "kubectl-trellis")}
	if err := i.up(ctx, name); err != nil {
		return nil, errors.Join(err, i.Remove())
	}
	return i, nil
}

func (i *Installation) up(ctx context.Context, name string) error {
	_, err := output(ctx, i.source, i.program, "sandbox", "up", "--name", name, "--dir", filepath.Join(i.dir, "s"),
		"--zones", "1", "--blocks", "1", "--racks", "1", "--hosts", "2")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(i.dir, "s", "*kubeconfig*"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("the sandbox %s has no kubeconfig", name)
	}
	config, err := clientcmd.BuildConfigFromFlags("", files[0])
	if err != nil {
		return err
	}
	config.QPS = -1
	if i.c, err = client.New(config, client.Options{}); err != nil {
		return err
	}
	if i.apiServer, err = serving(config); err != nil {
		return err
	}
	if err := i.c.Create(ctx, unstructuredOf("grove.io/v1alpha1", "ClusterTopology",
		"{metadata: {name: hall}, spec: {levels: [{domain: zone, key: topology.kubernetes.io/zone}, {domain: rack, key: "+
			"topology.trellis.dev/rack}, {domain: host, key: kubernetes.io/hostname}]}}",
	)); err != nil {
		return fmt.Errorf("creating the topology: %w", err)
	}
	return i.findIdle(ctx)
}

// idleWindows is the number of intervals over which findIdle takes the minimum.
const idleWindows = 5

// findIdle measures the idle share. The minimum of several intervals excludes the machine's other load.
func (i *Installation) findIdle(ctx context.Context) error {
	i.idle = math.Inf(1)
	for range idleWindows {
		before, start := i.cpu(), time.Now()
		if err := sleep(ctx, quietFor); err != nil {
			return err
		}
		i.idle = min(i.idle, (i.cpu()-before)/time.Since(start).Seconds())
	}
	return nil
}

// Remove stops the sandbox and deletes its files.
func (i *Installation) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := output(ctx, i.source, i.program, "sandbox", "down", "--dir", filepath.Join(i.dir, "s"))
	return errors.Join(err, os.RemoveAll(i.dir))
}

// serving returns the process of the API server of a configuration.
func serving(config *rest.Config) (procfs.Proc, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return procfs.Proc{}, err
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return procfs.Proc{}, err
	}
	for _, one := range all {
		if line, err := one.CmdLine(); err == nil && slices.Contains(line, "--secure-port="+server.Port()) {
			return one, nil
		}
	}
	return procfs.Proc{}, fmt.Errorf("no process of this machine serves %s", config.Host)
}

// cpu returns the CPU time of the API server, in seconds.
func (i *Installation) cpu() float64 {
	stat, err := i.apiServer.Stat()
	if err != nil {
		return 0
	}
	return stat.CPUTime()
}

// disaggregated is a deployment without pods, to measure only the cost of writing it and of the operator's objects.
const disaggregated = `
metadata: {namespace: default}
spec:
  backendFramework: vllm
  topologyConstraint: {topologyProfile: hall, packDomain: zone}
  envs: [{name: LOG_LEVEL, value: info}]
  services:
    Frontend: {componentType: frontend, replicas: 0, extraPodSpec: {mainContainer: {image: "example.com/dynamo:1", args: [python3, -m, dynamo.frontend]}}}
    Prefill:
      componentType: worker
      subComponentType: prefill
      replicas: 0
      resources: {limits: {gpu: "4"}}
      topologyConstraint: {packDomain: rack}
      extraPodSpec: {mainContainer: {image: "example.com/dynamo:1", args: [python3, -m, dynamo.vllm, --model, m, --is-prefill-worker]}}
    Decode:
      componentType: worker
      subComponentType: decode
      replicas: 0
      multinode: {nodeCount: 2}
      resources: {limits: {gpu: "8"}}
      topologyConstraint: {packDomain: rack}
      extraPodSpec: {mainContainer: {image: "example.com/dynamo:1", args: [python3, -m, dynamo.vllm, --model, m]}}
`

func unstructuredOf(apiVersion, kind, text string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		panic(err) // a constant
	}
	out.SetAPIVersion(apiVersion)
	out.SetKind(kind)
	return out
}

// Create creates deployments of v1alpha1 one after the other and returns the API server's CPU time per deployment, until the operator has
// no more writes. Then it deletes them.
func (i *Installation) Create(ctx context.Context, deployments int) (time.Duration, error) {
	before, start := i.cpu(), time.Now()
	for n := range deployments {
		dgd := unstructuredOf("nvidia.com/v1alpha1", "DynamoGraphDeployment", disaggregated)
		dgd.SetName(fmt.Sprintf("graph-%03d", n))
		if err := i.c.Create(ctx, dgd); err != nil {
			return 0, fmt.Errorf("creating a deployment: %w", err)
		}
	}
	if err := i.untilIdle(ctx); err != nil {
		return 0, err
	}
	used := i.cpu() - before - i.idle*time.Since(start).Seconds()
	if err := i.clear(ctx); err != nil {
		return 0, err
	}
	return time.Duration(used / float64(deployments) * float64(time.Second)), nil
}

// untilIdle waits until the API server uses hardly more than its idle share.
func (i *Installation) untilIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for calm := 0; calm < 2; {
		before, start := i.cpu(), time.Now()
		if err := sleep(ctx, quietFor/2); err != nil {
			return fmt.Errorf("waiting until the API server is idle: %w", err)
		}
		if (i.cpu()-before)/time.Since(start).Seconds() < 1.5*i.idle+0.02 {
			calm++
		} else {
			calm = 0
		}
	}
	return nil
}

func (i *Installation) clear(ctx context.Context) error {
	dgd := &unstructured.Unstructured{}
	dgd.SetAPIVersion("nvidia.com/v1alpha1")
	dgd.SetKind("DynamoGraphDeployment")
	if err := i.c.DeleteAllOf(ctx, dgd, client.InNamespace(namespace)); err != nil {
		return err
	}
	groups := &unstructured.UnstructuredList{}
	groups.SetGroupVersionKind(schema.GroupVersionKind{Group: "trellis.dev", Version: "v1alpha1", Kind: "ScalingGroupList"})
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := i.c.List(ctx, groups)
		return err == nil && len(groups.Items) == 0, err
	})
	return errors.Join(err, i.untilIdle(ctx))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
