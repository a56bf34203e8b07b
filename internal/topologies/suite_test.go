// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topologies"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func TestTopologies(t *testing.T) { suite.Run(t, "Topologies", suite.Default) }

// config is of an API server with ClusterTopologies, of each process its own: specs install and remove the definition of Bindings.
var (
	config *rest.Config
	admin  client.Client
	scheme = runtime.NewScheme()
)

var _ = BeforeSuite(func() {
	for _, add := range []func(*runtime.Scheme) error{grovev1alpha1.AddToScheme, topologybinding.AddToScheme, apiextensionsv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases/grove.io_clustertopologies.yaml"}}
	var err error
	config, err = apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	config.QPS = -1
	admin, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

const between = 20 * time.Millisecond

// eventually waits until an object of the API server, or of the cache, is as it should be.
func eventually(ctx context.Context, what string, look func() error) {
	GinkgoHelper()
	Eventually(ctx, look).WithPolling(between).Should(Succeed(), what)
}

// serve installs the definition of Bindings until the spec ends.
func serve(_ context.Context) {
	GinkgoHelper()
	crd, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(apiserver.Install(config, crd)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { remove(ctx) })
}

// remove deletes the definition, and with it all Bindings.
func remove(ctx context.Context) {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clustertopologybindings.grove.io"}}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, crd))).To(Succeed())
	eventually(ctx, "Bindings are not served", func() error {
		fresh, err := client.New(config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		if err := fresh.List(ctx, &topologybinding.BindingList{}); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("they are: %w", err)
		}
		return nil
	})
}

// opened is a cache, with what its events said of ClusterTopologies, as "+NAME", "~NAME" and "-NAME".
type opened struct {
	*topologies.Cache
	mu     sync.Mutex
	events []string
}

func open(ctx context.Context) *opened {
	GinkgoHelper()
	o := cache.Options{Scheme: scheme}
	of, err := cache.New(config, o)
	Expect(err).NotTo(HaveOccurred())
	c, err := topologies.NewCache(of, config, o, between)
	Expect(err).NotTo(HaveOccurred())
	result := &opened{Cache: c}
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(running) }()
	DeferCleanup(func() {
		end()
		Expect(<-ended).To(Succeed())
	})
	informer, err := c.GetInformer(ctx, &grovev1alpha1.ClusterTopology{})
	Expect(err).NotTo(HaveOccurred())
	_, err = informer.AddEventHandler(result.handler())
	Expect(err).NotTo(HaveOccurred())
	Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	return result
}

// handler notes its events.
func (o *opened) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.note("+", object) },
		UpdateFunc: func(_, object any) { o.note("~", object) },
		DeleteFunc: func(object any) { o.note("-", object) },
	}
}

func (o *opened) note(kind string, object any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, kind+object.(client.Object).GetName())
}

func (o *opened) noted() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.events, " ")
}

// has waits until all topologies of the cache are these, each as NAME:DOMAIN,... with * for one of a Binding; a Get says the same.
func (o *opened) has(ctx context.Context, want string) {
	GinkgoHelper()
	eventually(ctx, "the cache has "+want, func() error {
		list := &grovev1alpha1.ClusterTopologyList{}
		if err := o.List(ctx, list); err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			ct := &grovev1alpha1.ClusterTopology{}
			if err := o.Get(ctx, client.ObjectKeyFromObject(&list.Items[i]), ct); err != nil || ct.UID != list.Items[i].UID {
				return fmt.Errorf("%s is got as %s: %w", list.Items[i].UID, ct.UID, err)
			}
			got = append(got, describe(ct))
		}
		if text := strings.Join(got, " "); text != want {
			return errors.New("it has " + text)
		}
		return nil
	})
}

func describe(ct *grovev1alpha1.ClusterTopology) string {
	var domains []string
	for _, level := range ct.Spec.Levels {
		domains = append(domains, level.Domain)
	}
	text := ct.Name + ":" + strings.Join(domains, ",")
	if ct.FromBinding() {
		text = "*" + text
	}
	return text
}

func topology(name string, domains ...string) *grovev1alpha1.ClusterTopology {
	ct := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, domain := range domains {
		ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: domain, Key: "example.com/" + domain})
	}
	return ct
}

func binding(name string, domains ...string) *topologybinding.Binding {
	b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, domain := range domains {
		b.Spec.Levels = append(b.Spec.Levels, topologybinding.Level{Domain: domain, Key: "example.com/" + domain})
	}
	return b
}

// ownedBy is the owner of a Binding that Trellis wrote for a ClusterTopology.
func ownedBy(name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: grovev1alpha1.GroupVersion.String(), Kind: grovev1alpha1.KindClusterTopology, Name: name, UID: "1",
		Controller: ptr.To(true)}}
}

// create makes an object until the spec ends. The client learns of a kind that is served since a moment.
func create(ctx context.Context, o client.Object) {
	GinkgoHelper()
	eventually(ctx, "it is created", func() error { return admin.Create(ctx, o) })
	DeferCleanup(func(ctx SpecContext) {
		err := admin.Delete(ctx, o)
		if !meta.IsNoMatchError(err) {
			Expect(client.IgnoreNotFound(err)).To(Succeed())
		}
	})
}
