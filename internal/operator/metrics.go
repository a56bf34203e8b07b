// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"crypto/tls"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/trellis-k8s/trellis/internal/webhook"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsOptions returns the options of the metrics server. The server serves metrics over HTTPS to clients that may get the path /metrics
// (the ClusterRole trellis-metrics-reader), or over plain HTTP to everybody. With webhooks, it uses the webhooks' certificate, which
// clients can verify with the Secret's ca.crt for the name of the webhooks' Service. Without webhooks, the server creates a certificate
// that clients cannot verify.
func metricsOptions(o Options, certificate *webhook.Certificate) metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure || o.MetricsAddress == "0" {
		return options
	}
	options.SecureServing, options.FilterProvider = true, withLogin
	options.TLSOpts = []func(*tls.Config){webhook.OldestTLS}
	if o.Webhooks || o.Conversion {
		options.TLSOpts = append(options.TLSOpts, certificate.ServeWith)
	}
	return options
}

// withLogin returns controller-runtime's filter for authentication and authorization, except that the response to an invalid token has the
// status 401, like the API server's response, instead of 500.
func withLogin(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	filter, err := filters.WithAuthenticationAndAuthorization(config, httpClient)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		filtered, err := filter(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			metrics.ServeHTTP(w.(*login).ResponseWriter, r)
		}))
		if err != nil {
			return nil, err
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { filtered.ServeHTTP(&login{ResponseWriter: w}, r) }), nil
	}, nil
}

// login corrects the response of controller-runtime's filter to clients without access. It delays the status code until the response text
// is written, because only the text names the reason.
type login struct {
	http.ResponseWriter
	code int
}

// notAuthenticated is the text in the response of controller-runtime's filter to an invalid token, and after a failed check of a token.
const notAuthenticated = "Authentication failed"

// WriteHeader implements http.ResponseWriter.
func (l *login) WriteHeader(code int) { l.code = code }

// Write implements http.ResponseWriter.
func (l *login) Write(text []byte) (int, error) {
	if l.code == http.StatusInternalServerError && strings.HasPrefix(string(text), notAuthenticated) {
		l.code = http.StatusUnauthorized
	}
	if l.code != 0 {
		l.ResponseWriter.WriteHeader(l.code)
		l.code = 0
	}
	return l.ResponseWriter.Write(text)
}
