// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
)

// TestNow: ages are counted by the clock of the API server, whatever that of this machine says.
func TestNow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer = ptr.To(server.URL)
	c, _, err := NewClient(flags)
	if err != nil {
		t.Fatal(err)
	}
	if ahead := time.Until(Now(c)); ahead > time.Minute {
		t.Errorf("before any answer: %s ahead", ahead)
	}
	if err := c.List(t.Context(), &corev1.NodeList{}); err == nil {
		t.Fatal("no error")
	}
	if ahead := time.Until(Now(c)); ahead < 30*time.Minute {
		t.Errorf("after an answer: %s ahead, want about an hour", ahead)
	}
}
