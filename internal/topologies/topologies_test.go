// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topologies"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A cache of topologies", func() {
	It("follows Bindings that are served later, removed, and served again", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		create(ctx, topology("own", "zone"))
		c := open(ctx)
		c.has(ctx, "own:zone")

		By("the definition is installed")
		serve(ctx)
		create(ctx, binding("grove", "block", "rack"))
		c.has(ctx, "own:zone *grove:block,rack")
		Expect(c.noted()).To(Equal("+own +grove"))

		By("a Binding is changed")
		b := &topologybinding.Binding{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: "grove"}, b)).To(Succeed())
		b.Spec.Levels = b.Spec.Levels[1:]
		Expect(admin.Update(ctx, b)).To(Succeed())
		c.has(ctx, "own:zone *grove:rack")
		Expect(c.noted()).To(Equal("+own +grove ~grove"))

		By("the definition is removed")
		remove(ctx)
		c.has(ctx, "own:zone")
		Expect(c.noted()).To(Equal("+own +grove ~grove -grove"))

		By("and installed again")
		serve(ctx)
		create(ctx, binding("grove", "zone"))
		c.has(ctx, "own:zone *grove:zone")
	})

	It("has Bindings from its start on, and has a ClusterTopology count that has the name of one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		serve(ctx)
		create(ctx, binding("both", "rack"))
		c := open(ctx)
		list := &grovev1alpha1.ClusterTopologyList{}
		Expect(c.List(ctx, list)).To(Succeed()) // it has waited for them
		Expect(list.Items).To(HaveLen(1))

		ct := topology("both", "zone", "rack")
		create(ctx, ct)
		c.has(ctx, "both:zone,rack")
		of, why := c.Binding("both")
		Expect(of.Spec.Levels).To(HaveLen(1))
		Expect(why).To(BeEmpty())

		Expect(admin.Delete(ctx, ct)).To(Succeed())
		c.has(ctx, "*both:rack")
	})

	It("leaves out what cannot be read as a topology until it is corrected", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		serve(ctx)
		twice := binding("twice", "rack", "rack")
		create(ctx, twice)
		create(ctx, binding("right", "rack"))
		c := open(ctx)
		c.has(ctx, "*right:rack")
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(twice), &grovev1alpha1.ClusterTopology{}))).To(BeTrue(), "twice is not found")
		_, why := c.Binding("twice")
		Expect(why).To(ContainSubstring("spec.levels[1].domain"))
		twice.Spec.Levels = twice.Spec.Levels[1:]
		Expect(admin.Update(ctx, twice)).To(Succeed())
		c.has(ctx, "*right:rack *twice:rack")
	})

	It("has no topology of a Binding that Trellis wrote", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		serve(ctx)
		ours := binding("ours", "rack")
		ours.OwnerReferences = ownedBy(ours.Name)
		create(ctx, ours)
		create(ctx, binding("theirs", "rack"))
		c := open(ctx)
		c.has(ctx, "*theirs:rack")

		By("it loses its owner")
		ours.OwnerReferences = nil
		Expect(admin.Update(ctx, ours)).To(Succeed())
		c.has(ctx, "*ours:rack *theirs:rack")

		By("Trellis adopts it")
		ours.OwnerReferences = ownedBy(ours.Name)
		Expect(admin.Update(ctx, ours)).To(Succeed())
		c.has(ctx, "*theirs:rack")
	})

	It("tells a handler that is added later of the Bindings, and one that was removed nothing", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		serve(ctx)
		create(ctx, binding("first", "rack"))
		c := open(ctx)
		later := &opened{Cache: c.Cache}
		informer, err := c.GetInformer(ctx, &grovev1alpha1.ClusterTopology{})
		Expect(err).NotTo(HaveOccurred())
		registration, err := informer.AddEventHandler(later.handler())
		Expect(err).NotTo(HaveOccurred())
		Expect(later.noted()).To(Equal("+first"))

		Expect(informer.RemoveEventHandler(registration)).To(Succeed())
		for i, name := range []string{"second", "third"} { // all were told of one when another is told of the next
			create(ctx, binding(name, "rack"))
			eventually(ctx, "the other handler is told", func() error {
				if n := len(strings.Fields(c.noted())); n != 2+i {
					return fmt.Errorf("%d events", n)
				}
				return nil
			})
		}
		Expect(later.noted()).To(Equal("+first"))
	})

	It("leaves Bindings out while the right to read them is withdrawn", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		serve(ctx)
		create(ctx, binding("grove", "rack"))
		create(ctx, topology("own", "zone"))
		var withdrawn atomic.Bool
		was := config
		config = forbidding(config, "clustertopologybindings", withdrawn.Load)
		DeferCleanup(func() { config = was })
		c := open(ctx)
		c.has(ctx, "own:zone *grove:rack")
		withdrawn.Store(true)
		c.has(ctx, "own:zone")
		withdrawn.Store(false)
		c.has(ctx, "own:zone *grove:rack")
	})

	It("works as without Bindings where these must not be read", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		serve(ctx)
		create(ctx, binding("hidden", "rack"))
		create(ctx, topology("own", "zone"))
		was := config
		config = forbidding(config, "clustertopologybindings", func() bool { return true })
		DeferCleanup(func() { config = was })
		c := open(ctx)
		c.has(ctx, "own:zone")
	})
})

var _ = Describe("A read of a topology past the cache", func() {
	It("finds the ClusterTopology, or else the Binding", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		get := func(name string) (string, error) {
			live, err := client.New(config, client.Options{Scheme: scheme})
			Expect(err).NotTo(HaveOccurred())
			ct := &grovev1alpha1.ClusterTopology{}
			err = topologies.Reader{Reader: live}.Get(ctx, client.ObjectKey{Name: name}, ct)
			return describe(ct), err
		}
		_, err := get("grove")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v where Bindings are not served", err)
		serve(ctx)
		_, err = get("grove")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v without one", err)
		ours := binding("ours", "rack")
		ours.OwnerReferences = ownedBy(ours.Name)
		create(ctx, ours)
		_, err = get("ours")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v of one that Trellis wrote", err)
		create(ctx, binding("twice", "rack", "rack"))
		_, err = get("twice")
		var unusable *topologies.UnusableError
		Expect(errors.As(err, &unusable)).To(BeTrue(), "%v of one that is no topology", err)
		Expect(err).To(MatchError(And(HavePrefix(`ClusterTopologyBinding "twice" cannot be used: spec.levels[1]`), ContainSubstring("give each level its own"))))
		create(ctx, binding("grove", "rack"))
		Expect(get("grove")).To(Equal("*grove:rack"))
		create(ctx, topology("grove", "zone"))
		Expect(get("grove")).To(Equal("grove:zone"))
	})
})

// forbidding has the API server refuse requests for a resource when it is told to.
func forbidding(of *rest.Config, resource string, when func() bool) *rest.Config {
	of = rest.CopyConfig(of)
	of.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !when() || !strings.HasSuffix(r.URL.Path, "/"+resource) {
				return next.RoundTrip(r)
			}
			body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
			return &http.Response{
				StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: r,
			}, nil
		})
	})
	return of
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
