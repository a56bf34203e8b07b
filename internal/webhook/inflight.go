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
	// smallRequest is the size in bytes up to which a body is read before the request waits for its turn. Nearly all are smaller.
	smallRequest = 256 << 10
	// smallBytes and largeBytes bound the bodies of the requests that are worked on at once, in bytes, each for one kind of webhook. A larger
	// request takes all of largeBytes. Work takes some 50 times the memory of a body, and a compressed annotation counts as leastWeight at
	// least.
	smallBytes  = 4 << 20
	largeBytes  = 4 << 20
	leastWeight = 512 << 10
	// largestRequest bounds one body, in bytes, as package convert does. The API server takes objects of 3 MiB.
	largestRequest = 64 << 20
	// readLargeWithin bounds the time in which a large body is read once its turn has come: meanwhile no other large one is.
	readLargeWithin = 5 * time.Second
	// unstatedTimeout is assumed for a caller that, unlike the API server, does not state how long it waits.
	unstatedTimeout = 10 * time.Second
)

var turnedAway = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "trellis_webhook_turned_away_total",
	Help: "Requests to a webhook that were answered with 429 because earlier requests took all the time that the API server waits. It " +
		"repeats them.",
}, []string{"path"})

func init() { metrics.Registry.MustRegister(turnedAway) }

// inFlight bounds what the requests of one kind of webhook take of memory at once. A request above the bounds waits; it is turned away
// with 429 only when its caller would not wait any longer. Conversion and admission each have their own, since admission reads objects
// that may need conversion.
type inFlight struct{ small, large *semaphore.Weighted }

func newInFlight() *inFlight {
	return &inFlight{small: semaphore.NewWeighted(smallBytes), large: semaphore.NewWeighted(largeBytes)}
}

// bound serves the requests of a webhook within the bounds. It holds its share while it reads a large body and while it works, not while a
// small body is sent or an answer is taken: who is slow holds up no others.
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

// serve fails when the request's turn does not come in time.
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

// readLarge reads a body within a time that is shorter than that of the whole request, and restores that. A deadline that passes later
// would end the request's context.
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

// waits is how long a request can wait for its turn: four fifths of the time for which the API server says it waits for the answer.
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

// buffered is an answer that is written after its request has given up its share.
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
