// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// between has something happen after each page, and lets tokens that ask for more grow old.
type between struct {
	http.RoundTripper
	happens func()
	// ages is how many tokens get the first of all revisions.
	ages    int
	answers []int
}

func (b *between) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return b.RoundTripper.RoundTrip(request)
	}
	query := request.URL.Query()
	if token := query.Get("continue"); token != "" && b.ages > 0 {
		b.ages--
		request = request.Clone(request.Context())
		query.Set("continue", aged(token))
		request.URL.RawQuery = query.Encode()
	}
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		b.answers = append(b.answers, response.StatusCode)
	}
	if b.happens != nil {
		b.happens()
	}
	return response, err
}

// aged is a token of the same place in revision 1.
func aged(token string) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return token
	}
	return base64.RawURLEncoding.EncodeToString(regexp.MustCompile(`"rv":\d+`).ReplaceAll(raw, []byte(`"rv":1`)))
}

func (w *world) disturbed(happens func()) (*Reconciler, *between) {
	GinkgoHelper()
	b := &between{happens: happens}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { b.RoundTripper = inner; return b })
	objects, err := metadata.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	r := w.reconciler()
	r.Objects = objects
	return r, b
}

var _ = Describe("Objects that others write or delete after they were listed", func() {
	It("need no writing", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := today(ctx)
		for _, name := range []string{"changed", "deleted", "recreated", "same"} {
			w.create("DynamoGraphDeployment", "team-a", name)
		}
		w.store("v1beta1")
		r, _ := w.disturbed(func() {
			Expect(w.c.Patch(ctx, alpha("DynamoGraphDeployment", "team-a", "changed"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))).To(Succeed())
			Expect(w.c.Delete(ctx, alpha("DynamoGraphDeployment", "team-a", "deleted"))).To(Succeed())
			Expect(w.c.Delete(ctx, alpha("DynamoGraphDeployment", "team-a", "recreated"))).To(Succeed())
			w.create("DynamoGraphDeployment", "team-a", "recreated")
		})
		Expect(w.reconcile(r, deployments)).To(Succeed())
		w.wantStored("dynamographdeployments", "3 v1beta1")
		w.wantVersions(deployments, "v1beta1")
	})
})

var _ = Describe("A list of objects to migrate", func() {
	It("continues where it was when the revision has been compacted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := today(ctx)
		for i := range pageSize + 5 {
			w.create("DynamoGraphDeploymentScalingAdapter", "team-a", fmt.Sprintf("a-%03d", i))
		}
		w.store("v1beta1")
		w.compact()
		r, pages := w.disturbed(nil)
		pages.ages = 1
		Expect(w.reconcile(r, adapters)).To(Succeed())
		Expect(cmp.Diff([]int{http.StatusOK, http.StatusGone, http.StatusOK}, pages.answers)).To(BeEmpty(), "answers to the requests for pages (-want, +got)")
		w.wantStored("dynamographdeploymentscalingadapters", "105 v1beta1")
		w.wantVersions(adapters, "v1beta1")
	})
})

// compact has etcd forget the revisions before today's.
func (w *world) compact() {
	GinkgoHelper()
	body := fmt.Sprintf(`{"revision":%q}`, w.definition(adapters).ResourceVersion)
	response, err := http.Post(w.etcd+"/v3/kv/compaction", "application/json", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	Expect(response.StatusCode).To(Equal(http.StatusOK))
}

// otherwise changes a definition in what is not about its storage version.
func otherwise() client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v%d"]}}}}`, time.Now().UnixNano()))
}

var _ = Describe("A definition that changes during the migration", func() {
	It("is left to the next pass, for the storage version may be another one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := today(ctx)
		w.create("DynamoGraphDeployment", "team-a", "g")
		w.store("v1beta1")
		r, _ := w.disturbed(func() {
			Expect(w.c.Patch(ctx, w.definition(deployments), otherwise())).To(Succeed())
		})
		Expect(w.reconcile(r, deployments)).To(Succeed())
		w.wantVersions(deployments, "v1alpha1", "v1beta1")
		w.wantCondition(deployments, "False", reasonRewriting, "stored as v1alpha1 are rewritten as v1beta1")
		Expect(w.reconcile(w.reconciler(), deployments)).To(Succeed())
		w.wantVersions(deployments, "v1beta1")
	})
})
