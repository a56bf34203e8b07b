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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
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

var _ = Describe("A read of admission that fails", func() {
	It("is repeated by the client, and succeeds", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		s.leader.live.failNext("gb200", errAway, context.DeadlineExceeded)
		s.create(readDeployment("gb200", packed))
		Expect(s.leader.live.left("gb200")).To(BeZero(), "reads that were to fail")
	})

	transfer := strings.Replace(packed, "spec:\n", "spec:\n  experimental: {kvTransferPolicy: {clusterTopologyName: gb200, domain: rack}}\n", 1)
	type unread struct {
		manifest string
		faults   []error
		code     int
		reason   metav1.StatusReason
		retry    string
		texts    []string
		warning  string
	}
	tests := map[string]unread{
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
	}
	DescribeTable("is no fault of the manifest", func(ctx SpecContext, c unread) {
		s := newServerWithTopology(ctx)
		s.leader.live.failNext("gb200", c.faults...)
		object := readDeployment("gb200", c.manifest)
		object.SetName("unread")
		status, header := s.post(object)
		Expect(status).To(And(HaveField("Code", BeEquivalentTo(c.code)), HaveField("Reason", c.reason)))
		Expect(header.Get("Retry-After")).To(Equal(c.retry))
		for _, text := range c.texts {
			Expect(status.Message).To(ContainSubstring(text))
		}
		warned := strings.Join(header.Values("Warning"), "\n")
		if c.warning == "" {
			Expect(warned).To(BeEmpty())
		}
		Expect(warned).To(ContainSubstring(c.warning))
		s.wantGone(object.DeepCopy())
	}, suite.Entries(tests, SpecTimeout(suite.Timeout())))
})

// post creates a deployment of v1alpha1 without repeating what fails, and returns the answer.
func (s *server) post(object client.Object) (metav1.Status, http.Header) {
	GinkgoHelper()
	caller, err := rest.HTTPClientFor(s.env.Config)
	Expect(err).NotTo(HaveOccurred())
	body, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	address, _, err := rest.DefaultServerUrlFor(s.env.Config)
	Expect(err).NotTo(HaveOccurred())
	address.Path = "/apis/nvidia.com/v1alpha1/namespaces/default/dynamographdeployments"
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	response, err := caller.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	status := metav1.Status{}
	Expect(json.NewDecoder(response.Body).Decode(&status)).To(Succeed())
	return status, response.Header
}
