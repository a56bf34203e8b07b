// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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

var _ http.RoundTripper = &recorder{}
