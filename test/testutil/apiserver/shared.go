// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var errNoPrograms = errors.New("KUBEBUILDER_ASSETS is not set: run make test, or set it to what bin/kubectl-trellis sandbox binaries " +
	"prints")

// Shared is one API server for the tests of a package. The first call of Config starts it, so that unit tests run without it. TestMain
// stops it:
//
//	var shared = &apiserver.Shared{}
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
// Each test works in its own namespace (see Namespace), or deletes the objects that it creates. No test may depend on cluster-wide objects
// of another test.
type Shared struct {
	Environment envtest.Environment
	// Prepare, if set, is called once with the configuration of the started API server, before any test gets it, for example to install
	// definitions.
	Prepare func(*rest.Config) error

	once sync.Once
	err  error
}

// Config returns a new administrator's configuration, without a client-side rate limit.
func (s *Shared) Config(t testing.TB) *rest.Config {
	t.Helper()
	s.once.Do(s.start)
	if s.err != nil {
		t.Fatal(s.err)
	}
	return rest.CopyConfig(s.Environment.Config)
}

func (s *Shared) start() {
	config, err := Launch(&s.Environment)
	if err != nil {
		s.err = fmt.Errorf("starting the API server: %w", err)
		return
	}
	config.QPS = -1
	if s.Prepare != nil {
		s.err = s.Prepare(config)
	}
}

// Main runs the tests, stops the API server, and returns the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.Environment.Config == nil {
		return code
	}
	if err := s.Environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
	}
	return code
}

// Namespace creates a unique namespace, even if the same test runs several times. Nothing deletes the objects in it.
func Namespace(t testing.TB, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(context.Background(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}
