// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of objects in the operator's manifests.
const (
	operatorNamespace  = "trellis-system"
	metricsReader      = "trellis-metrics-reader"
	certificateSecret  = "trellis-webhook-server-cert"
	certificateHost    = "trellis-webhook-service." + operatorNamespace + ".svc"
	metricsReadTimeout = 10 * time.Second
)

// MetricsReader has the credentials to read the operator's metrics: the token of a ServiceAccount with the ClusterRole
// trellis-metrics-reader, the certificate authority in PEM, and the server name of the certificate.
type MetricsReader struct {
	Token, ServerName string
	Authority         []byte
}

// NewMetricsReader creates a ServiceAccount that can read metrics.
func (s *Sandbox) NewMetricsReader(ctx context.Context) (*MetricsReader, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	named := metav1.ObjectMeta{Namespace: operatorNamespace, Name: "scraper"}
	if _, err := client.CoreV1().ServiceAccounts(operatorNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: named},
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating the scraper's account: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: metricsReader},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: named.Name}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("binding the scraper's account: %w", err)
	}
	token, err := client.CoreV1().ServiceAccounts(operatorNamespace).CreateToken(ctx, named.Name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("getting a token for the scraper: %w", err)
	}
	secret, err := client.CoreV1().Secrets(operatorNamespace).Get(ctx, certificateSecret, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the certificate's authority: %w", err)
	}
	return &MetricsReader{Token: token.Status.Token, ServerName: certificateHost, Authority: secret.Data["ca.crt"]}, nil
}

// Read gets the metrics from an address (host:port). A response other than 200 is an error with that status.
func (r *MetricsReader) Read(ctx context.Context, address string) (string, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(r.Authority) {
		return "", fmt.Errorf("no certificate in ca.crt of Secret %s/%s: wait until the operator has made one", operatorNamespace,
			certificateSecret)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: r.ServerName, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	if r.Token != "" {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: metricsReadTimeout}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the metrics answer %s: %s", response.Status, text)
	}
	return string(text), err
}
