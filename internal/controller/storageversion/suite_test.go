// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/stored"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	deployments = "dynamographdeployments.nvidia.com"
	adapters    = "dynamographdeploymentscalingadapters.nvidia.com"
)

// world is an API server whose etcd can be looked into, with the definitions of commit 886ffe1 and none of their objects.
type world struct {
	ctx     context.Context
	config  *rest.Config
	c       client.Client
	objects metadata.Interface
	etcd    string
}

func TestStorageVersion(t *testing.T) { suite.Run(t, "Storage version", suite.Default) }

// What every process has of its own: specs install other definitions.
var (
	env    *envtest.Environment
	server *conversion.Server
)

var _ = BeforeSuite(func() {
	env = &envtest.Environment{}
	apiserver.Start(GinkgoTB(), env)
	env.Config.QPS = -1
	server = conversion.Serve()
	DeferCleanup(server.Close)
})

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	w := &world{ctx: ctx, config: rest.CopyConfig(env.Config), etcd: env.ControlPlane.Etcd.URL.String()}
	var err error
	w.c, err = client.New(w.config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	w.objects, err = metadata.NewForConfig(w.config)
	Expect(err).NotTo(HaveOccurred())
	for _, namespace := range []string{"team-a", "team-b"} {
		created := w.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		Expect(client.IgnoreAlreadyExists(created)).To(Succeed())
	}
	return w
}

func (w *world) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(w.ctx, look).WithPolling(50*time.Millisecond).Should(Succeed(), "waiting until "+what)
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
	GinkgoHelper()
	Expect(w.c.Create(w.ctx, alpha(kind, namespace, name))).To(Succeed())
}

// storedAs returns the names of the objects that etcd holds in a version, a line each.
func (w *world) storedAs(resource, version string) string {
	GinkgoHelper()
	objects, err := stored.InEtcd(w.ctx, http.DefaultClient, w.etcd, "nvidia.com", resource)
	Expect(err).NotTo(HaveOccurred())
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
	GinkgoHelper()
	var out []string
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		if n := strings.Count(w.storedAs(resource, version), "\n"); n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, version))
		}
	}
	return strings.Join(out, ", ")
}

func (w *world) wantStored(resource, want string) {
	GinkgoHelper()
	Expect(w.stored(resource)).To(Equal(want), "etcd holds of %s", resource)
}

func (w *world) definition(name string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(w.c.Get(w.ctx, client.ObjectKey{Name: name}, crd)).To(Succeed())
	return crd
}

func (w *world) wantVersions(name string, want ...string) {
	GinkgoHelper()
	Expect(w.definition(name).Status.StoredVersions).To(ConsistOf(want), "storedVersions of %s", name)
}

// reconciler works as the operator's, at once.
func (w *world) reconciler(namespaces ...string) *Reconciler {
	return &Reconciler{Client: w.c, Objects: w.objects, Namespaces: namespaces, Clock: clock.RealClock{}}
}

func (w *world) reconcile(r *Reconciler, name string) error {
	_, err := r.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	return err
}

func (w *world) wantCondition(name string, status apiextensionsv1.ConditionStatus, reason string, parts ...string) {
	GinkgoHelper()
	Expect(w.hasCondition(name, status, reason, parts...)).To(Succeed())
}

func (w *world) hasCondition(name string, status apiextensionsv1.ConditionStatus, reason string, parts ...string) error {
	GinkgoHelper()
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
