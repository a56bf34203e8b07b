// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live measures on a real control plane: a sandbox with a hall's nodes, the operator, and Kubernetes' own gang scheduling switched
// on, so that every way of placing pods uses the same API server and the same kube-scheduler.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

const (
	topologyName = "hall"
	// creators is the number of parallel creates.
	creators = 16
)

// Cluster is a sandbox with the nodes of a hall.
type Cluster struct {
	// Hasty does not wait for a quiet machine between measurements: for a smoke run, whose times have no meaning.
	Hasty bool

	shape hall.Shape
	box   *sandbox.Sandbox
	c     client.WithWatch
	dir   string
	// theirs are the kinds of objects that peers create alongside the pods.
	theirs []schema.GroupVersionKind
	// peers maps the programs of peers to whether they run.
	peers map[string]bool
	// metrics reads the operator's metrics; nil until the first read.
	metrics *sandbox.MetricsReader
	// costs are the costs of each way's rounds, by the way's name.
	costs map[string][]Cost
}

// UpBeside starts a cluster with the operator, KAI and Grove.
func UpBeside(ctx context.Context, shape hall.Shape, beside *sandbox.Peers) (*Cluster, error) {
	c, err := Up(ctx, shape, true, func(o *sandbox.Options) { o.Peers = beside })
	if err == nil {
		c.theirs, c.peers = theirs, map[string]bool{}
		for name := range beside.Ports {
			c.peers[name] = true
		}
	}
	return c, err
}

// RunOnly ends peers' programs that are not needed, starts those that are, and waits until the machine is quiet.
func (c *Cluster) RunOnly(ctx context.Context, needed ...string) error {
	for _, name := range slices.Sorted(maps.Keys(c.peers)) {
		var err error
		switch need := slices.Contains(needed, name); {
		case need && !c.peers[name]:
			err = c.box.RestartProgram(ctx, name)
		case !need && c.peers[name]:
			err = c.box.StopProgram(ctx, name)
		}
		if err != nil {
			return err
		}
		c.peers[name] = slices.Contains(needed, name)
	}
	return c.untilQuiet(ctx)
}

// Up starts a cluster. All nodes are Ready and free of start-up taints when it returns. more changes the options of the sandbox.
func Up(ctx context.Context, shape hall.Shape, operator bool, more ...func(*sandbox.Options)) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "trellis-bench")
	if err != nil {
		return nil, err
	}
	c := &Cluster{shape: shape, dir: dir}
	if err := c.up(ctx, operator, more); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context, operator bool, more []func(*sandbox.Options)) error {
	file, err := c.nodesFile()
	if err != nil {
		return err
	}
	options := sandbox.Options{
		Name: "bench", Dir: filepath.Join(c.dir, "s"), NodesFile: file, Provider: sandbox.PodGroup, Operator: operator,
		Progress: progress.Discard,
	}
	for _, change := range more {
		change(&options)
	}
	if c.box, err = sandbox.Up(ctx, options); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nvidiav1alpha1.AddToScheme, nvidiav1beta1.AddToScheme,
		grovev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := c.box.RESTConfig()
	if err != nil {
		return err
	}
	if c.c, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil || !operator {
		return err
	}
	return c.c.Create(ctx, topology())
}

func topology() *grovev1alpha1.ClusterTopology {
	t := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: topologyName}}
	for _, l := range hall.Levels {
		t.Spec.Levels = append(t.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: l.Name(), Key: l.Key()})
	}
	return t
}

// nodesFile writes the hall's nodes for the sandbox.
func (c *Cluster) nodesFile() (string, error) {
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for _, n := range c.shape.Nodes() {
		list.Items = append(list.Items, *n)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, "nodes.json")
	return file, os.WriteFile(file, data, 0o600)
}

// Down stops the cluster and deletes its files.
func (c *Cluster) Down() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := sandbox.Down(ctx, filepath.Join(c.dir, "s"))
	if errors.Is(err, sandbox.ErrNotFound) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// create sends objects in parallel.
func (c *Cluster) create(ctx context.Context, objects []client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, o := range objects {
		group.Go(func() error { return c.createOne(ctx, o) })
	}
	return group.Wait()
}

func (c *Cluster) createOne(ctx context.Context, o client.Object) error {
	if err := c.c.Create(ctx, o); err != nil {
		return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
	}
	return nil
}
