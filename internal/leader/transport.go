// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"net/http"
	"strings"
)

// Wrap makes the writes of a transport pass the fence.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, fence: f}
}

type transport struct {
	next  http.RoundTripper
	fence *Fence
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if writes(request) {
		if err := t.fence.pass(request.Context()); err != nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper implements RoundTripperWrapper of k8s.io/apimachinery/pkg/util/net.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// writes reports whether a request may change stored objects. Token and access reviews store nothing, and every replica of the operator
// sends them to serve its metrics.
func writes(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.Contains(request.URL.Path, "/apis/authentication.k8s.io/") &&
		!strings.Contains(request.URL.Path, "/apis/authorization.k8s.io/")
}
