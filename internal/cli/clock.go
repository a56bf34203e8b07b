// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dated is a client that can also read the version of the API server, and that measures the difference between the API server's clock and
// the clock of this machine.
type dated struct {
	client.Client
	*ahead
	discovery.ServerVersionInterfaceWithContext
}

// ahead is a RoundTripper that reads the API server's time from the Date header of responses. by is how far the API server's clock is ahead
// of the clock of this machine, in nanoseconds.
type ahead struct {
	next http.RoundTripper
	by   *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (a *ahead) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		by := time.Until(date)
		if by.Abs() <= time.Second { // the header has whole seconds
			by = 0
		}
		a.by.Store(int64(by))
	}
	return response, nil
}

// Now returns the time of the API server's clock. Ages of objects are computed with this clock, because the clock of a laptop may be
// minutes off. For a client that is not from [NewClient], Now returns the time of this machine.
func Now(c client.Reader) time.Time {
	if d, ok := c.(dated); ok {
		return time.Now().Add(time.Duration(d.by.Load()))
	}
	return time.Now()
}
