// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unreliable is a reader of a real API server of which a test lets reads fail.
type unreliable struct {
	client.Reader
	mu     sync.Mutex
	faults map[string][]error
}

// failNext has the next reads of the objects of a name fail, one with each error; nil: one succeeds.
func (u *unreliable) failNext(name string, faults ...error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults = map[string][]error{name: faults}
}

func (u *unreliable) next(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	faults := u.faults[name]
	if len(faults) == 0 {
		return nil
	}
	u.faults[name] = faults[1:]
	return faults[0]
}

// left is how many reads have yet to fail.
func (u *unreliable) left(name string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.faults[name])
}

// Get implements client.Reader.
func (u *unreliable) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if fault := u.next(key.Name); fault != nil {
		return fault
	}
	return u.Reader.Get(ctx, key, object, opts...)
}

var (
	errAway      = apierrors.NewTimeoutError("etcd is away", 0)
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Group: "grove.io", Resource: "clustertopologies"}, "gb200", errors.New("no"))
)

// A read that fails is no fault of the manifest: clients repeat the request by themselves, and it succeeds.
func TestFailedReadIsRepeated(t *testing.T) {
	s := newServerWithTopology(t)
	s.leader.live.failNext("gb200", errAway, context.DeadlineExceeded)
	s.create(readDeployment(t, "gb200", packed))
	if n := s.leader.live.left("gb200"); n > 0 {
		t.Errorf("%d reads were to fail yet", n)
	}
}

// The API server passes the answer on: 5xx, the time to wait, and what could not be read. 422 is for real faults only, and says what was not
// checked.
func TestFailedReadIsNoFaultOfTheManifest(t *testing.T) {
	s := newServerWithTopology(t)
	transfer := strings.Replace(packed, "spec:\n", "spec:\n  experimental: {kvTransferPolicy: {clusterTopologyName: gb200, domain: rack}}\n", 1)
	for name, c := range map[string]struct {
		manifest string
		faults   []error
		code     int
		reason   metav1.StatusReason
		retry    string
		texts    []string
		warning  string
	}{
		"a read that fails": {packed, []error{errAway}, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "1",
			[]string{`failed to read ClusterTopology "gb200"`, "etcd is away", "nothing wrong was found", "try again"}, ""},
		"a read that takes too long": {packed, []error{context.DeadlineExceeded}, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "1",
			[]string{`failed to read ClusterTopology "gb200"`, "context deadline exceeded", "try again"}, ""},
		"a read for the transfer policy": {transfer, []error{nil, errAway}, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "1",
			[]string{`failed to read ClusterTopology "gb200"`}, ""},
		"a read that an admin has to allow": {packed, []error{errForbidden}, http.StatusInternalServerError, metav1.StatusReasonInternalError, "",
			[]string{`failed to read ClusterTopology "gb200"`, "allow the operator's ServiceAccount"}, ""},
		"beside a fault": {packedBut("replicas: 2", `resources: {limits: {cpu: "1"}, requests: {cpu: "2"}}`), []error{errAway}, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "",
			[]string{"spec.services[Worker].resources.requests.cpu"}, "what needs it was not checked"},
	} {
		t.Run(name, func(t *testing.T) {
			s.leader.live.failNext("gb200", c.faults...)
			object := readDeployment(t, "gb200", c.manifest)
			object.SetName("unread")
			s := &server{s.suite, t}
			status, header := s.post(object)
			if int(status.Code) != c.code || status.Reason != c.reason || header.Get("Retry-After") != c.retry {
				t.Errorf("answered with %d %s, retry after %q; want %d %s, %q", status.Code, status.Reason, header.Get("Retry-After"), c.code, c.reason, c.retry)
			}
			for _, text := range c.texts {
				if !strings.Contains(status.Message, text) {
					t.Errorf("want %q in %s", text, status.Message)
				}
			}
			if warned := strings.Join(header.Values("Warning"), "\n"); !strings.Contains(warned, c.warning) || c.warning == "" && warned != "" {
				t.Errorf("warnings %q, want %q", warned, c.warning)
			}
			s.wantGone(object.DeepCopy())
		})
	}
}

// post creates a deployment of v1alpha1 without repeating what fails, and returns the answer.
func (s *server) post(object client.Object) (metav1.Status, http.Header) {
	s.t.Helper()
	caller, err := rest.HTTPClientFor(s.env.Config)
	s.must(err)
	body, err := json.Marshal(object)
	s.must(err)
	address, _, err := rest.DefaultServerUrlFor(s.env.Config)
	s.must(err)
	address.Path = "/apis/nvidia.com/v1alpha1/namespaces/default/dynamographdeployments"
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, address.String(), bytes.NewReader(body))
	s.must(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := caller.Do(request)
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	status := metav1.Status{}
	s.must(json.NewDecoder(response.Body).Decode(&status))
	return status, response.Header
}
