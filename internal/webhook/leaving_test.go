// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestLeavingEndsConnections(t *testing.T) {
	ending := make(chan struct{})
	server := httptest.NewServer(closing(http.NotFoundHandler(), ending))
	defer server.Close()
	closes := func() bool {
		t.Helper()
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return response.Close
	}
	if closes() {
		t.Error("a connection is not kept")
	}
	close(ending)
	if !closes() {
		t.Error("a connection is kept although the replica ends")
	}
}
