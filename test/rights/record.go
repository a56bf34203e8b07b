// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Record returns a configuration whose requests are noted. own is the operator's namespace there.
func (s *Suite) Record(config *rest.Config, own string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{suite: s, next: next, own: own} })
	return config
}

type recorder struct {
	suite *Suite
	next  http.RoundTripper
	own   string
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	call, ok := parse(request.Method, request.URL)
	if !ok {
		return r.next.RoundTrip(request)
	}
	var body []byte
	if call.Resource == "roles" && request.Body != nil && request.Method != http.MethodGet {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := r.next.RoundTrip(request)
	if call.Namespace == r.own {
		call.Namespace = ownNamespace
	}
	r.suite.Note(call)
	if err == nil && response.StatusCode == http.StatusCreated && call.Verb == "patch" {
		call.Verb = "create" // a server-side apply of what was not there
		r.suite.Note(call)
	}
	if streams(request.URL) {
		call.Verb = "list"
		r.suite.Note(call)
	}
	if len(body) > 0 {
		r.suite.Grant(roleIn(body).Rules)
	}
	return response, err
}

// roleIn is the Role that a request writes: in protobuf or JSON when it is created, in YAML or JSON when it is patched.
func roleIn(body []byte) *rbacv1.Role {
	if object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if role, ok := object.(*rbacv1.Role); ok {
			return role
		}
	}
	role := &rbacv1.Role{}
	_ = yaml.Unmarshal(body, role) // a merge patch names no kind
	return role
}

// parse a request as the API server does; ok is false where it is about no resource.
func parse(method string, u *url.URL) (c Call, ok bool) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		c.Group, parts = parts[1], parts[3:]
	default:
		return c, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.Namespace, parts = parts[1], parts[2:]
	}
	c.Resource = parts[0]
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	if len(parts) > 2 {
		c.Resource += "/" + parts[2]
	}
	c.Verb = verb(method, c.Name, u.Query())
	if selector, err := fields.ParseSelector(u.Query().Get("fieldSelector")); err == nil && c.Name == "" {
		c.Name, _ = selector.RequiresExactMatch("metadata.name")
	}
	return c, true
}

// streams: the watch begins with what is there. An API server that cannot do that is asked for a list before.
func streams(u *url.URL) bool { return u.Query().Get("sendInitialEvents") == "true" }

func verb(method, name string, query url.Values) string {
	watch := query.Get("watch")
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	switch {
	case watch == "true" || watch == "1":
		return "watch"
	case name == "":
		return "list"
	}
	return "get"
}

// event is what is read of a line of an API server's audit log.
type event struct {
	Stage, Verb  string
	User         struct{ Username string }
	ObjectRef    *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	RequestURI   string
	ResponseCode struct {
		Code int
	} `json:"responseStatus"`
	RequestObject *rbacv1.Role
}

// ReadAudit notes the requests of a user in an API server's audit log.
func (s *Suite) ReadAudit(file, user string) error {
	log, err := os.Open(file)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		e := event{}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.User.Username != user || e.ObjectRef == nil || e.ObjectRef.Resource == "" {
			continue
		}
		ref := e.ObjectRef
		c := Call{Verb: e.Verb, Group: ref.APIGroup, Resource: ref.Resource, Name: ref.Name, Namespace: ref.Namespace}
		if ref.Subresource != "" {
			c.Resource += "/" + ref.Subresource
		}
		s.Note(c)
		if e.Verb == "patch" && e.ResponseCode.Code == http.StatusCreated {
			c.Verb = "create"
			s.Note(c)
		}
		if u, err := url.Parse(e.RequestURI); err == nil && e.Verb == "watch" && streams(u) {
			c.Verb = "list"
			s.Note(c)
		}
		if e.RequestObject != nil && c.Resource == "roles" {
			s.Grant(e.RequestObject.Rules)
		}
	}
	return lines.Err()
}
