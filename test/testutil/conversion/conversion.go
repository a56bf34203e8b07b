// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conversion serves /convert inside a test. It is for suites on a real API server that read or write both versions of a kind, and
// that run no operator or an operator without webhooks:
//
//	server := conversion.Serve()
//	defer server.Close()
//	config, err := env.Start() // an envtest.Environment without definitions: it would take their conversion from them
//	err = server.Install(config, "../../config/crd/bases")
package conversion

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// Server serves /convert on this machine.
type Server struct{ *httptest.Server }

// Address is the address of a server, possibly in another process.
type Address struct {
	URL string
	// Authority is the CA certificate for the server's certificate, in PEM.
	Authority []byte
}

// Address returns the server's address.
func (s *Server) Address() Address {
	return Address{s.URL + convert.Path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}

// Serve starts a server; Close ends it.
func Serve() *Server {
	mux := http.NewServeMux()
	mux.Handle(convert.Path, convert.Handler())
	s := &Server{httptest.NewUnstartedServer(mux)}
	s.EnableHTTP2 = true
	s.StartTLS()
	return s
}

// Install installs the definitions in a directory, and others. The server converts the kinds with several versions.
func (s *Server) Install(config *rest.Config, dir string, others ...*apiextensionsv1.CustomResourceDefinition) error {
	crds, err := s.definitions(dir)
	if err != nil {
		return err
	}
	return apiserver.Install(config, append(crds, others...)...)
}

func (s *Server) definitions(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no definitions in %s: %w", dir, err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(crd.Spec.Versions) > 1 {
			crd.Spec.Conversion = s.Address().stanza()
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// TakeOver makes this server convert the objects of the definitions in a cluster from now on. The API server may still call the previous
// server for a moment.
func (s *Server) TakeOver(ctx context.Context, c client.Client) error {
	return s.Address().TakeOver(ctx, c)
}

// TakeOver does what Server.TakeOver does, for the server at the address.
func (a Address) TakeOver(ctx context.Context, c client.Client) error {
	for _, name := range slices.Sorted(maps.Values(convert.Definitions)) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return err
		}
		before := crd.DeepCopy()
		crd.Spec.Conversion = a.stanza()
		if err := c.Patch(ctx, crd, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("patching definition %s: %w", name, err)
		}
	}
	return nil
}

func (a Address) stanza() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: ptr.To(a.URL), CABundle: a.Authority},
		},
	}
}
