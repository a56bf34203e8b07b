// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/stored"
)

const (
	deployments = "dynamographdeployments.nvidia.com"
	adapters    = "dynamographdeploymentscalingadapters.nvidia.com"
)

// world is an API server whose etcd can be looked into, with the definitions of commit 886ffe1 and none of their objects.
type world struct {
	t       *testing.T
	config  *rest.Config
	c       client.Client
	objects metadata.Interface
	etcd    string
}

var (
	shared = &apiserver.Shared{}
	server = conversion.Serve()
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := shared.Config(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, config: config, etcd: shared.Environment.ControlPlane.Etcd.URL.String()}
	var err error
	w.c, err = client.New(config, client.Options{Scheme: scheme})
	w.must(err)
	w.objects, err = metadata.NewForConfig(config)
	w.must(err)
	for _, namespace := range []string{"team-a", "team-b"} {
		w.must(client.IgnoreAlreadyExists(w.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) until(what string, look func() error) {
	w.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = look()
		return last == nil, nil
	})
	if err != nil {
		w.t.Fatalf("waiting until %s: %v", what, last)
	}
}

// alpha is a deployment, or an adapter, as v1alpha1 writes it.
func alpha(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "nvidia.com/v1alpha1", "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.Object["spec"] = map[string]any{"services": map[string]any{"Worker": map[string]any{"replicas": int64(1), "resources": map[string]any{"limits": map[string]any{"gpu": "8"}}}}}
	if kind != "DynamoGraphDeployment" {
		u.Object["spec"] = map[string]any{"replicas": int64(2), "dgdRef": map[string]any{"name": "g", "serviceName": "Worker"}}
	}
	return u
}

func (w *world) create(kind, namespace, name string) {
	w.t.Helper()
	w.must(w.c.Create(w.t.Context(), alpha(kind, namespace, name)))
}

// storedAs returns the names of the objects that etcd holds in a version, a line each.
func (w *world) storedAs(resource, version string) string {
	w.t.Helper()
	objects, err := stored.InEtcd(w.t.Context(), http.DefaultClient, w.etcd, "nvidia.com", resource)
	w.must(err)
	var lines strings.Builder
	for _, object := range objects {
		if object.APIVersion == "nvidia.com/"+version {
			lines.WriteString(object.Metadata.Namespace + "/" + object.Metadata.Name + "\n")
		}
	}
	return lines.String()
}

// stored counts the objects in etcd by version: "2 v1alpha1, 1 v1beta1".
func (w *world) stored(resource string) string {
	w.t.Helper()
	var out []string
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		if n := strings.Count(w.storedAs(resource, version), "\n"); n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, version))
		}
	}
	return strings.Join(out, ", ")
}

func (w *world) wantStored(resource, want string) {
	w.t.Helper()
	if got := w.stored(resource); got != want {
		w.t.Errorf("etcd holds of %s %q, want %q", resource, got, want)
	}
}

func (w *world) definition(name string) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.c.Get(w.t.Context(), client.ObjectKey{Name: name}, crd))
	return crd
}

func (w *world) wantVersions(name string, want ...string) {
	w.t.Helper()
	if got := slices.Sorted(slices.Values(w.definition(name).Status.StoredVersions)); !slices.Equal(got, want) {
		w.t.Errorf("storedVersions of %s are %v, want %v", name, got, want)
	}
}

// reconciler works as the operator's, at once.
func (w *world) reconciler(namespaces ...string) *Reconciler {
	return &Reconciler{Client: w.c, Objects: w.objects, Namespaces: namespaces, Clock: clock.RealClock{}}
}

func (w *world) reconcile(r *Reconciler, name string) error {
	_, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	return err
}

func (w *world) wantCondition(name string, status apiextensionsv1.ConditionStatus, reason string, parts ...string) {
	w.t.Helper()
	if err := w.hasCondition(name, status, reason, parts...); err != nil {
		w.t.Error(err)
	}
}

func (w *world) hasCondition(name string, status apiextensionsv1.ConditionStatus, reason string, parts ...string) error {
	w.t.Helper()
	for _, c := range w.definition(name).Status.Conditions {
		if c.Type != ConditionStorageMigrated {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("%s: message %q lacks %q", name, c.Message, part)
			}
		}
		if c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s: condition is %s/%s: %s", name, c.Status, c.Reason, c.Message)
		}
		return nil
	}
	return errors.New(name + " has no condition")
}
