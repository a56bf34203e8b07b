// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/plugin"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// cluster is a real API server with a few objects, behind a proxy that notes what is asked.
type cluster struct {
	kubeconfig string
	mu         sync.Mutex
	seen       sets.Set[string]
	more       chan struct{}
}

// server is the API server that the tests share, one after the other.
var server = &apiserver.Shared{Environment: envtest.Environment{
	CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases"), filepath.Join("testdata", "computedomains.yaml")},
	ErrorIfCRDPathMissing: true, CRDs: []*apiextensionsv1.CustomResourceDefinition{bindings()},
}}

// bindings is the definition of Grove's ClusterTopologyBindings.
func bindings() *apiextensionsv1.CustomResourceDefinition {
	crd, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	if err != nil {
		panic(err) // a file of the repository
	}
	return crd
}

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// startCluster creates the objects, and deletes them when the test is over. The user "planner" has the role that is shipped for people who
// plan, and no other.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	config := server.Config(t)
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	planner := impersonating(t, config, scheme)
	t.Cleanup(func() { // after the objects are deleted: the next test is to see rights of its own
		authorized(t, planner, apierrors.IsForbidden)
	})
	for _, object := range append(objects(t), role(t), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "planner"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "trellis-planner-role"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "planner"}},
	}) {
		create(t, admin, object)
	}
	authorized(t, planner, func(err error) bool { return err == nil })
	c := &cluster{seen: sets.New[string](), more: make(chan struct{}, 1)}
	c.proxy(t, config)
	return c
}

// create creates an object, and deletes it when the test is over.
func create(t *testing.T, admin client.Client, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), object, client.GracePeriodSeconds(0)); err != nil {
			t.Error(err)
		}
	})
}

// impersonating is a client with the rights of the planner.
func impersonating(t *testing.T, config *rest.Config, scheme *runtime.Scheme) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = "planner"
	planner, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return planner
}

// authorized waits until the API server's authorizer has seen the role, or that it is gone: it watches.
func authorized(t *testing.T, planner client.Client, answer func(error) bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, patience.Limit(), true, func(ctx context.Context) (bool, error) {
		return answer(planner.List(ctx, &trellisv1alpha1.ScalingGroupList{})), nil
	}); err != nil {
		t.Fatal(err)
	}
}

func role(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "planner_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		t.Fatal(err)
	}
	return role
}

func objects(t *testing.T) []client.Object {
	t.Helper()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	node := &corev1.Node{ObjectMeta: named("", "host-0")}
	node.Labels = map[string]string{"topology.kubernetes.io/zone": "zone-0", "kubernetes.io/hostname": "host-0"}
	topology := &grovev1alpha1.ClusterTopology{ObjectMeta: named("", "hall")}
	topology.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "topology.kubernetes.io/zone"}}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: named("default", "chat")}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{
		Name: "Worker", Type: "worker",
		PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app"}}}},
	}}
	resolved, err := render.Resolve(dgd, render.Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	group := resolved.ScalingGroups()[0]
	pod := render.BuildPod(group, 0, 0)
	labels := map[string]string{"app.kubernetes.io/name": "trellis", "app.kubernetes.io/component": "manager"}
	manager := &appsv1.Deployment{ObjectMeta: named("default", "trellis-manager")}
	manager.Labels = labels
	manager.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	manager.Spec.Template.Labels = labels
	manager.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "trellis-manager:v0.1.0"}}
	return []client.Object{node, topology, dgd, group, pod, manager}
}

// proxy serves the API on this machine, with the rights of an administrator, who may impersonate, and writes a kubeconfig for it.
func (c *cluster) proxy(t *testing.T, config *rest.Config) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1 // watches
	if proxy.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.note(rightOf(r))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}}, CurrentContext: "c",
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}, "other": {Cluster: "c"}},
	}
	if err := clientcmd.WriteToFile(kubeconfig, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// rightOf is "group/resource verb" of a request that reads; "" of discovery.
func rightOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, parts = parts[1], parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb := "list"
	switch {
	case r.Method != http.MethodGet:
		verb = r.Method
	case len(parts) > 1:
		verb = "get"
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	}
	return group + "/" + parts[0] + " " + verb
}

func (c *cluster) note(right string) {
	if right == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Insert(right)
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *cluster) asked() sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.Clone()
}

// run executes the plugin as the planner.
func (c *cluster) run(ctx context.Context, args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := plugin.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e})
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

// TestPlannerRole: with the role that is shipped every command answers in full, and the role has no right that none of them uses.
func TestPlannerRole(t *testing.T) {
	c := startCluster(t)
	as := func(line string) []string {
		return append(strings.Fields(line), "--as", "planner", "--kubeconfig", c.kubeconfig)
	}
	for line, want := range map[string]string{
		"explain chat":                    "DynamoGraphDeployment default/chat",
		"explain sg chat-worker":          "DynamoGraphDeployment default/chat",
		"explain pod/chat-worker-0":       "DynamoGraphDeployment default/chat",
		"map -o json":                     `"chat"`,
		"plan --cluster dgd chat -o json": `"chat"`,
		"queue":                           "Nothing waits.",
		"rollout history chat":            "No generation of chat in default is stored.",
		"rollout status dgd/chat":         "chat in default",
		"status dgd/chat":                 "chat in default",
		"topology suggest":                "kind: ClusterTopology",
		"tree -A":                         "hall",
		"tree ctopo hall":                 "hall",
		"version":                         "Operator: v0.1.0",
	} {
		out, errOut, err := c.run(t.Context(), as(line)...)
		if code, _ := cli.ExitCode(err); err != nil && code != 2 || !strings.Contains(out, want) || strings.Contains(strings.ToLower(out+errOut), "may not") {
			t.Errorf("%s: %v, want %q in\n%s%s", line, err, want, out, errOut)
		}
	}
	for line, want := range map[string]string{
		"explain c": "chat\n", "explain sg/": "sg/chat-worker\n", "status dgd ": "chat\n", "tree --topology ": "hall\n",
		"tree --namespace ": "default\n", "queue --output j": "jsonpath\n", "plan --context ": "c\nother\n",
	} {
		words := strings.Split(line, " ")
		args := append([]string{"__complete", words[0], "--as", "planner", "--kubeconfig", c.kubeconfig}, words[1:]...)
		if out, _, err := c.run(t.Context(), args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("completing %q: %v, want %q in\n%s", line, err, want, out)
		}
	}
	want := sets.New[string]()
	for _, rule := range role(t).Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				want.Insert(rule.APIGroups[0] + "/" + resource + " " + verb)
			}
		}
	}
	c.follow(t, want, as("status chat --watch --forever"), as("map --serve"))
	if diff := cmp.Diff(sets.List(want), sets.List(c.asked())); diff != "" {
		t.Errorf("rights of the role and what is asked for (-role +asked):\n%s", diff)
	}
}

// follow runs commands that do not end until all rights have been used, or for patience.Limit.
func (c *cluster) follow(t *testing.T, want sets.Set[string], commands ...[]string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience.Limit())
	var running sync.WaitGroup
	for _, args := range commands {
		running.Go(func() {
			if _, errOut, err := c.run(ctx, args...); ctx.Err() == nil {
				t.Errorf("%s ended: %v\n%s", strings.Join(args, " "), err, errOut)
			}
		})
	}
	for !c.asked().IsSuperset(want) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-c.more:
		}
	}
	stop()
	running.Wait()
}
