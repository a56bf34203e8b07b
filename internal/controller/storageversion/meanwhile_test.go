// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	w.t.Helper()
	b := &between{happens: happens}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { b.RoundTripper = inner; return b })
	objects, err := metadata.NewForConfig(config)
	w.must(err)
	r := w.reconciler()
	r.Objects = objects
	return r, b
}

// What others write or delete after it was listed needs no writing any more.
func TestOthersWriteMeanwhile(t *testing.T) {
	w := today(t)
	for _, name := range []string{"changed", "deleted", "recreated", "same"} {
		w.create("DynamoGraphDeployment", "team-a", name)
	}
	w.store("v1beta1")
	r, _ := w.disturbed(func() {
		w.must(w.c.Patch(t.Context(), alpha("DynamoGraphDeployment", "team-a", "changed"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		w.must(w.c.Delete(t.Context(), alpha("DynamoGraphDeployment", "team-a", "deleted")))
		w.must(w.c.Delete(t.Context(), alpha("DynamoGraphDeployment", "team-a", "recreated")))
		w.create("DynamoGraphDeployment", "team-a", "recreated")
	})
	w.must(w.reconcile(r, deployments))
	w.wantStored("dynamographdeployments", "3 v1beta1")
	w.wantVersions(deployments, "v1beta1")
}

// A list whose revision has been compacted goes on where it was.
func TestGoesOnAfterCompaction(t *testing.T) {
	w := today(t)
	for i := range pageSize + 5 {
		w.create("DynamoGraphDeploymentScalingAdapter", "team-a", fmt.Sprintf("a-%03d", i))
	}
	w.store("v1beta1")
	w.compact()
	r, pages := w.disturbed(nil)
	pages.ages = 1
	w.must(w.reconcile(r, adapters))
	if diff := cmp.Diff([]int{http.StatusOK, http.StatusGone, http.StatusOK}, pages.answers); diff != "" {
		t.Errorf("answers to the requests for pages (-want, +got):\n%s", diff)
	}
	w.wantStored("dynamographdeploymentscalingadapters", "105 v1beta1")
	w.wantVersions(adapters, "v1beta1")
}

// compact has etcd forget the revisions before today's.
func (w *world) compact() {
	w.t.Helper()
	body := fmt.Sprintf(`{"revision":%q}`, w.definition(adapters).ResourceVersion)
	response, err := http.Post(w.etcd+"/v3/kv/compaction", "application/json", strings.NewReader(body))
	w.must(err)
	w.must(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		w.t.Fatal(response.Status)
	}
}

// otherwise changes a definition in what is not about its storage version.
func otherwise() client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v%d"]}}}}`, time.Now().UnixNano()))
}

// A definition that is not the same any more may have another storage version; the next pass sees to it.
func TestDefinitionChangesMeanwhile(t *testing.T) {
	w := today(t)
	w.create("DynamoGraphDeployment", "team-a", "g")
	w.store("v1beta1")
	r, _ := w.disturbed(func() {
		w.must(w.c.Patch(t.Context(), w.definition(deployments), otherwise()))
	})
	w.must(w.reconcile(r, deployments))
	w.wantVersions(deployments, "v1alpha1", "v1beta1")
	w.wantCondition(deployments, "False", reasonRewriting, "stored as v1alpha1 are rewritten as v1beta1")
	w.must(w.reconcile(w.reconciler(), deployments))
	w.wantVersions(deployments, "v1beta1")
}
