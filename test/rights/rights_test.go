// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bytes"
	stdjson "encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]Call{
		"GET /api/v1/pods?watch=true":     {"watch", "", "pods", "", ""},
		"GET /api/v1/namespaces/a/pods/p": {"get", "", "pods", "p", "a"},
		"GET /api/v1/namespaces/a":        {"get", "", "namespaces", "a", ""},
		"PATCH /apis/nvidia.com/v1beta1/namespaces/a/dynamographdeployments/g/status": {"patch", "nvidia.com", "dynamographdeployments/status", "g", "a"},
		"DELETE /api/v1/namespaces/a/pods":                                            {"deletecollection", "", "pods", "", "a"},
		"GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds&watch=1":    {"watch", "", "secrets", "s", "a"},
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                            {"create", "authentication.k8s.io", "tokenreviews", "", ""},
		"GET /apis/grove.io/v1alpha1":                                                 {}, "GET /healthz": {}, "GET /api": {},
	} {
		method, to, _ := strings.Cut(line, " ")
		u, err := url.Parse("https://localhost" + to)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parse(method, u); got != want && ok || ok != (want.Verb != "") {
			t.Errorf("%s: %+v, %t, want %+v", line, got, ok, want)
		}
	}
}

func suite() *Suite {
	return &Suite{used: sets.New[string](), without: sets.New[string](), shipped: []Right{
		{Verb: "get", Resource: "pods"}, {Verb: "get", Resource: "secrets", Name: "s", Own: true}, {Verb: "create", Group: "g", Resource: "x/scale"},
	}}
}

func TestNote(t *testing.T) {
	s := suite()
	for _, c := range []Call{
		{"get", "", "pods", "p", "a"}, {"get", "", "secrets", "s", ownNamespace}, {"get", "", "secrets", "s", "a"}, {"get", "", "secrets", "t", ownNamespace}, {"list", "", "pods", "", ""},
	} {
		s.Note(c)
	}
	s.Grant([]rbacv1.PolicyRule{{APIGroups: []string{"g"}, Resources: []string{"x/scale"}, Verbs: []string{"create", "delete"}}})
	if diff := cmp.Diff([]string{"/pods get", "g/x/scale create", ownNamespace + ": /secrets[s] get"}, sets.List(s.used)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get /secrets a/s", "get /secrets " + ownNamespace + "/t", "granting delete g/x/scale /", "list /pods /"}, sets.List(s.without)); diff != "" {
		t.Errorf("without a right (-want +got):\n%s", diff)
	}
}

// An API server's audit log gives the same as the requests.
func TestReadAudit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := `{"verb":"get","user":{"username":"me"},"objectRef":{"resource":"pods","namespace":"a","name":"p"},"responseStatus":{"code":200}}
{"verb":"list","user":{"username":"you"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"me"},"requestURI":"/healthz","responseStatus":{"code":200}}
{"verb":"create","user":{"username":"me"},"objectRef":{"apiGroup":"g","resource":"x","subresource":"scale","name":"p"},"responseStatus":{"code":201}}
{"verb":"delete","user":{"username":"me"},"objectRef":{"resource":"pods","namespace":"a","name":"p"},"responseStatus":{"code":403}}
`
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	s := suite()
	if err := s.ReadAudit(file, "me"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/pods get", "g/x/scale create"}, sets.List(s.used)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if !s.without.Equal(sets.New("delete /pods a/p")) {
		t.Errorf("without a right: %v", sets.List(s.without))
	}
}

// What a Role grants counts, however a client writes it: controller-runtime creates Roles in protobuf and applies them in JSON.
func TestRecordsWhatRolesGrant(t *testing.T) {
	role := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"g"}, Resources: []string{"x/scale"}, Verbs: []string{"create"}}}}
	encode := func(serializer runtime.Serializer) []byte {
		body, err := runtime.Encode(clientgoscheme.Codecs.EncoderForVersion(serializer, rbacv1.SchemeGroupVersion), role)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	scheme := clientgoscheme.Scheme
	cases := map[string]struct {
		method string
		body   []byte
	}{
		"created in protobuf": {http.MethodPost, encode(protobuf.NewSerializer(scheme, scheme))},
		"applied in JSON":     {http.MethodPatch, encode(json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}))},
		"merged":              {http.MethodPatch, []byte(`{"rules":[{"apiGroups":["g"],"resources":["x/scale"],"verbs":["create"]}]}`)},
	}
	for name, c := range cases {
		s, sent := suite(), []byte(nil)
		r := &recorder{suite: s, next: roundTrip(func(request *http.Request) (*http.Response, error) {
			var err error
			sent, err = io.ReadAll(request.Body)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
		})}
		request, err := http.NewRequestWithContext(t.Context(), c.method, "https://localhost/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles", bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := r.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(sent, c.body) {
			t.Fatalf("%s: the request did not pass: %v", name, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if !s.used.Has("g/x/scale create") {
			t.Errorf("%s: the grant was not noted", name)
		}
	}
}

// What the operators of other processes asked for counts as if they had run in the first one.
func TestGathersFromProcesses(t *testing.T) {
	s, entry := suite(), func(name, value string) types.ReportEntry {
		return types.ReportEntry{Name: name, Value: types.WrapEntryValue(value)}
	}
	s.used.Insert("/pods get")
	sent, err := stdjson.Marshal(types.Report{SpecReports: types.SpecReports{
		{ReportEntries: types.ReportEntries{entry(s.entry("used"), "/pods get\n/pods list"), entry(s.entry("without"), "")}},
		{ReportEntries: types.ReportEntries{entry("another", "/pods create"), entry(s.entry("without"), "delete /pods a/p")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	report := types.Report{}
	if err := stdjson.Unmarshal(sent, &report); err != nil {
		t.Fatal(err)
	}
	s.gather(report)
	if diff := cmp.Diff([]string{"/pods get", "/pods list"}, sets.List(s.used)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if !s.without.Equal(sets.New("delete /pods a/p")) {
		t.Errorf("without a right: %v", sets.List(s.without))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
