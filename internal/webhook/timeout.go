// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// answerWithin bounds the time for a request and its response. The API server waits at most 30 seconds for admission, but waits for a
// conversion as long as the connection exists.
const answerWithin = 30 * time.Second

// within ends the connection if the body or the response of a request is not transferred in time. The webhook server has time limits for
// TLS handshakes, headers and idle connections, but not for bodies and responses. Without within, each stuck transfer would keep a
// goroutine and its memory.
func within(limit time.Duration, hook http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, end := http.NewResponseController(w), time.Now().Add(limit)
		for _, bound := range []func(time.Time) error{connection.SetReadDeadline, connection.SetWriteDeadline} {
			if err := bound(end); err != nil {
				log.FromContext(r.Context()).Error(err, "a request is answered without a deadline", "path", r.URL.Path)
			}
		}
		hook.ServeHTTP(w, r)
	})
}
