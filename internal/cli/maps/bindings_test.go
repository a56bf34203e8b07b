// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// bindingsCluster is a cluster without any ClusterTopology.
type bindingsCluster struct {
	*testing.T
	config *rest.Config
	admin  client.Client
	// kubeconfig is a file.
	kubeconfig string
}

// newBindingsCluster has one host, in zone z and rack r.
func newBindingsCluster(t *testing.T) *bindingsCluster {
	t.Helper()
	bases := filepath.Join("..", "..", "..", "config", "crd", "bases")
	env := &envtest.Environment{CRDDirectoryPaths: []string{bases}, ErrorIfCRDPathMissing: true}
	apiserver.Start(t, env)
	b := &bindingsCluster{T: t, config: env.Config, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := os.WriteFile(b.kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	scheme, err := cli.NewScheme()
	if err == nil {
		err = apiextensionsv1.AddToScheme(scheme)
	}
	if err != nil {
		t.Fatal(err)
	}
	if b.admin, err = client.New(env.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host"}}
	node.Labels = map[string]string{"example.com/zone": "z", "example.com/rack": "r"}
	if err := b.admin.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return b
}

// serve installs the definition of Bindings.
func (b *bindingsCluster) serve() {
	b.Helper()
	crd, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	if err == nil {
		err = apiserver.Install(b.config, crd)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// remove deletes the definition of Bindings, and with it all Bindings, and returns when it is gone.
func (b *bindingsCluster) remove() {
	b.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clustertopologybindings.grove.io"}}
	if err := b.admin.Delete(b.Context(), crd); err != nil {
		b.Fatal(err)
	}
	b.until("the definition is gone", func(ctx context.Context) error {
		if err := b.admin.Get(ctx, client.ObjectKeyFromObject(crd), crd); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// bind creates the Binding "hall" with some levels, or changes it.
func (b *bindingsCluster) bind(domains ...string) {
	b.Helper()
	b.until("the Binding is written", func(ctx context.Context) error { // the kind may be served since a moment
		binding := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: "hall"}}
		err := b.admin.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		binding.Spec.Levels = nil
		for _, domain := range domains {
			binding.Spec.Levels = append(binding.Spec.Levels, topologybinding.Level{Domain: domain, Key: "example.com/" + domain})
		}
		if err == nil {
			return b.admin.Update(ctx, binding)
		}
		return b.admin.Create(ctx, binding)
	})
}

// until waits until a function returns no error.
func (b *bindingsCluster) until(what string, try func(context.Context) error) {
	b.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, patience.Limit(), true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	}); err != nil {
		b.Fatalf("waiting until %s: %v", what, last)
	}
}

// options are those of a user of this cluster who gives no flags.
func (b *bindingsCluster) options(streams genericiooptions.IOStreams) *options {
	o := &options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true), format: formatHTML, lookEvery: 20 * time.Millisecond}
	o.config.KubeConfig = &b.kubeconfig
	return o
}

// served serves the map until the test ends, and returns what waits for the next map that is pushed.
func (b *bindingsCluster) served() func() *Map {
	b.Helper()
	says, errOut := io.Pipe()
	o := b.options(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: errOut})
	o.serve = true
	ctx, end := context.WithTimeout(b.Context(), patience.Limit())
	ended := make(chan error, 1)
	go func() {
		err := o.run(ctx)
		_ = errOut.Close()
		ended <- err
	}()
	lines, address := bufio.NewScanner(says), ""
	for address == "" && lines.Scan() {
		address = regexp.MustCompile(`http://\S+/`).FindString(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, says) }()
	b.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			b.Errorf("map --serve ends with: %v", err)
		}
	})
	if address == "" {
		b.Fatal("map --serve says no address")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"events", nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = answer.Body.Close() })
	events := bufio.NewScanner(answer.Body)
	events.Buffer(nil, 1<<20)
	return func() *Map {
		b.Helper()
		for events.Scan() {
			if data, found := strings.CutPrefix(events.Text(), "data: "); found {
				return b.read([]byte(data))
			}
		}
		b.Fatalf("no further map is pushed: %v", events.Err())
		return nil
	}
}

func (b *bindingsCluster) read(data []byte) *Map {
	b.Helper()
	m := &Map{}
	if err := json.Unmarshal(data, m); err != nil {
		b.Fatalf("%v in %s", err, data)
	}
	return m
}

// hierarchies are the topologies of a map with their levels.
func hierarchies(m *Map) string {
	var all []string
	for _, t := range m.Trees {
		all = append(all, strings.TrimSpace(t.TopologyKind+" "+t.Topology+": "+strings.Join(t.Levels, ">")))
	}
	return strings.Join(all, ", ")
}

// written is a map that is written once.
func (b *bindingsCluster) written() *Map {
	b.Helper()
	var out, errOut bytes.Buffer
	o := b.options(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	o.format = formatJSON
	if err := o.run(b.Context()); err != nil {
		b.Fatalf("%v\n%s", err, errOut.String())
	}
	return b.read(out.Bytes())
}

// TestBindingsOnly: without a ClusterTopology the cluster is drawn by Bindings, and a served map follows them, from when their kind is served
// until it is removed.
func TestBindingsOnly(t *testing.T) {
	b := newBindingsCluster(t)
	next := b.served()
	shows := func(what, want string) {
		t.Helper()
		got := hierarchies(next())
		for got != want { // it ends when no further map is pushed
			t.Logf("%s: the map has %s", what, got)
			got = hierarchies(next())
		}
	}
	const none, both = ": node", "ClusterTopologyBinding hall: zone>rack>node"
	shows("the kind is not served", none)
	for _, levels := range []string{"zone", "rack"} { // the kind is installed twice
		b.serve()
		b.bind(levels)
		shows("the Binding is created", "ClusterTopologyBinding hall: "+levels+">node")
		b.bind("zone", "rack")
		shows("the Binding is changed", both)
		if got := hierarchies(b.written()); got != both {
			t.Errorf("the map that is written has %s, want %s", got, both)
		}
		b.remove()
		shows("the kind is removed", none)
	}
}
