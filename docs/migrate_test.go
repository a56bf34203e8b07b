// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topologies"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// anyKind is the definition of a kind that takes any fields.
func anyKind(group, kind, version string) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}}
	crd.Spec.Group, crd.Spec.Scope = group, apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
		},
	}}
	return crd
}

// block is the shell block of a page that contains a text, without the indent of a list.
func block(t *testing.T, page, contains string) string {
	t.Helper()
	for _, found := range codeBlock.FindAllStringSubmatch(pages(t)[page], -1) {
		if found[1] == "sh" && strings.Contains(found[2], contains) {
			return found[2]
		}
	}
	t.Fatalf("%s has no shell block with %q", page, contains)
	return ""
}

// TestMigrationCommands runs the commands of migrate.md that need no operator, as they stand there, on a real API server: objects keep a copy,
// lose the finalizers that no one removes any more, and what the Dynamo operator made is deleted; versions are set as the page says.
func TestMigrationCommands(t *testing.T) {
	grove, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		CRDs: []*apiextensionsv1.CustomResourceDefinition{
			anyKind("nvidia.com", "DynamoComponentDeployment", "v1alpha1"), anyKind("grove.io", "PodCliqueSet", "v1alpha1"), grove,
		},
	}
	apiserver.Start(t, env)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, grovev1alpha1.AddToScheme, topologybinding.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	made := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace("default")
		u.SetName(name)
		u.SetFinalizers([]string{"nvidia.com/finalizer"})
		u.SetLabels(map[string]string{"nvidia.com/dynamo-graph-deployment-name": "chat"})
		if err := c.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	dgd := made("nvidia.com/v1beta1", "DynamoGraphDeployment", "chat", map[string]any{
		"components": []any{map[string]any{"name": "Worker"}}, "topologyConstraint": map[string]any{"clusterTopologyName": "gb200", "packDomain": "rack"},
	})
	part := made("nvidia.com/v1alpha1", "DynamoComponentDeployment", "chat-worker", nil)

	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(contains string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block(t, "migrate.md", contains))
		command.Dir = dir
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, command.Args[len(command.Args)-1], limit.Text(string(out), 4000))
		}
	}

	followBindings(t, c, run)
	run("before.yaml")
	if copied, err := os.ReadFile(filepath.Join(dir, "before.yaml")); err != nil || !strings.Contains(string(copied), "name: chat") {
		t.Errorf("the copy: %v\n%s", err, copied)
	}
	run(`{"metadata":{"finalizers":null}}`)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(dgd), dgd); err != nil || len(dgd.GetFinalizers()) > 0 {
		t.Errorf("the deployment: %v, finalizers %v", err, dgd.GetFinalizers())
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(part), part); !apierrors.IsNotFound(err) {
		t.Errorf("what the Dynamo operator made is still there (%v)", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dynamographdeployments.nvidia.com"}}
	run(`"storedVersions":["v1beta1"]`)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil || !slices.Equal(crd.Status.StoredVersions, []string{"v1beta1"}) {
		t.Errorf("stored versions: %v, %v", err, crd.Status.StoredVersions)
	}
	run(`"path":"/spec/versions/0/storage"`)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil || crd.Spec.Versions[0].Name != "v1alpha1" || !crd.Spec.Versions[0].Storage {
		t.Errorf("storage version: %v, %+v", err, crd.Spec.Versions[0].Storage)
	}
}

// followBindings goes the way of a cluster that has Grove's Bindings: what the deployment names is the Binding, with the pool and as the default as
// its annotations say, and then the ClusterTopology with the same levels.
func followBindings(t *testing.T, c client.Client, run func(contains string)) {
	t.Helper()
	b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: "gb200"}}
	b.Spec.Levels = []topologybinding.Level{{Domain: "block", Key: "example.com/block"}, {Domain: "rack", Key: "example.com/rack"}}
	if err := c.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	named := func() *grovev1alpha1.ClusterTopology {
		t.Helper()
		ct := &grovev1alpha1.ClusterTopology{}
		if err := (topologies.Reader{Reader: c}).Get(t.Context(), client.ObjectKey{Name: "gb200"}, ct); err != nil {
			t.Fatal(err)
		}
		return ct
	}
	run("> bindings.yaml")
	run("nvidia.com/gpu.product")
	from := named()
	if !from.FromBinding() || from.Spec.NodeSelector["nvidia.com/gpu.product"] != "NVIDIA-GB200" || len(constraint.Defaults([]grovev1alpha1.ClusterTopology{*from})) != 1 {
		t.Errorf("the annotated Binding is read as %+v", from)
	}
	run("while read name")
	run("> topologies.yaml")
	run("kubectl apply -f topologies.yaml")
	if ct := named(); ct.FromBinding() || topologybinding.Differ(ct, from) != "" {
		t.Errorf("the ClusterTopology is %+v", ct)
	}
}
