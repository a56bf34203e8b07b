// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// smallRequest is the maximum size of a small request's body, in bytes. A small body is read before the request acquires its weight in
	// the semaphore.
	smallRequest = 256 << 10
	// smallBytes and largeBytes bound the total size of the bodies of concurrent requests, in bytes: smallBytes for small requests, and
	// largeBytes for large requests. Each kind of webhook has its own bounds. A body above largeBytes counts as largeBytes. A body below
	// leastWeight counts as leastWeight, because its annotations may be compressed. Processing a request needs about 50 times the memory of
	// its body.
	smallBytes  = 4 << 20
	largeBytes  = 4 << 20
	leastWeight = 512 << 10
	// largestRequest bounds one body, in bytes, as in package convert. The API server accepts objects of up to 3 MiB.
	largestRequest = 64 << 20
	// readLargeWithin bounds the time to read a large body, because other large requests wait during this time.
	readLargeWithin = 5 * time.Second
	// unstatedTimeout is the assumed timeout of a caller that does not state its timeout. The API server always states its timeout.
	unstatedTimeout = 10 * time.Second
)

var turnedAway = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "trellis_webhook_turned_away_total",
	Help: "Requests to a webhook that were answered with 429 because earlier requests took all the time that the API server waits. It " +
		"repeats them.",
}, []string{"path"})

func init() { metrics.Registry.MustRegister(turnedAway) }

// inFlight bounds the memory of the concurrent requests to one kind of webhook. A request above the bounds waits. It gets a 429 response
// only if it would have to wait beyond its caller's timeout. Conversion and admission have separate bounds, because admission reads objects
// that may need conversion.
type inFlight struct{ small, large *semaphore.Weighted }

func newInFlight() *inFlight {
	return &inFlight{small: semaphore.NewWeighted(smallBytes), large: semaphore.NewWeighted(largeBytes)}
}

// bound serves the requests of a webhook within the bounds. A request holds its weight in a semaphore while a large body is read and while
// the request is processed. It holds no weight while a small body or the response is transferred, so that slow clients do not delay other
// requests.
func (f *inFlight) bound(hook http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &buffered{header: http.Header{}}
		if err := f.serve(w, answer, r, hook); err != nil {
			turnedAway.WithLabelValues(r.URL.Path).Inc()
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		answer.writeTo(w, r)
	})
}

// serve processes a request. It returns an error if the request would have to wait for too long.
func (f *inFlight) serve(w http.ResponseWriter, answer *buffered, r *http.Request, hook http.Handler) error {
	if r.ContentLength >= 0 && r.ContentLength <= smallRequest {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			unread(answer, err)
			return nil
		}
		return f.work(f.small, max(leastWeight, int64(len(body))), r, func() { hook.ServeHTTP(answer, withBody(r, body)) })
	}
	weight := int64(largeBytes)
	if r.ContentLength >= 0 {
		weight = min(max(leastWeight, r.ContentLength), largeBytes)
	}
	return f.work(f.large, weight, r, func() {
		body, err := readLarge(w, r)
		if err != nil {
			unread(answer, err)
			return
		}
		hook.ServeHTTP(answer, withBody(r, body))
	})
}

func unread(answer *buffered, err error) {
	http.Error(answer, fmt.Sprintf("reading the request: %v", err), http.StatusBadRequest)
}

// readLarge reads a body within a shorter deadline than the request's deadline, and then restores the request's deadline. Otherwise the
// shorter deadline could expire while the request is processed, and would cancel the request's context.
func readLarge(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(readLargeWithin)); err != nil {
		log.FromContext(r.Context()).Error(err, "a request is read without a deadline", "path", r.URL.Path)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestRequest))
	if err == nil {
		err = connection.SetReadDeadline(time.Now().Add(answerWithin))
	}
	return body, err
}

func (f *inFlight) work(share *semaphore.Weighted, weight int64, r *http.Request, do func()) error {
	ctx, cancel := context.WithTimeout(r.Context(), waits(r))
	defer cancel()
	if err := share.Acquire(ctx, weight); err != nil {
		return fmt.Errorf("%s: the requests before this one have not been answered in time: try again", r.URL.Path)
	}
	defer share.Release(weight)
	do()
	return nil
}

// waits returns the maximum time for which a request waits: four fifths of the caller's timeout, or of answerWithin if answerWithin is
// shorter.
func waits(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		timeout = unstatedTimeout
	}
	return min(timeout, answerWithin) * 4 / 5
}

func withBody(r *http.Request, body []byte) *http.Request {
	out := r.Clone(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	return out
}

// buffered is a response that is sent after its request has released its weight in the semaphore.
type buffered struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *buffered) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(code int) {
	if b.code == 0 {
		b.code = code
	}
}

// Write implements http.ResponseWriter.
func (b *buffered) Write(part []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(part)
}

func (b *buffered) writeTo(w http.ResponseWriter, r *http.Request) {
	for key, values := range b.header {
		w.Header()[key] = values
	}
	if b.code != 0 {
		w.WriteHeader(b.code)
	}
	if _, err := w.Write(b.body.Bytes()); err != nil {
		log.FromContext(r.Context()).V(1).Info("an answer did not reach its caller", "path", r.URL.Path, "reason", err.Error())
	}
}
