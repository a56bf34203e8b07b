// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

const certAuthority = "trellis-webhook-ca"

// CertOptions say where the certificate is kept, whom it is made for, and who must trust it.
type CertOptions struct {
	// Namespace is the operator's own: the Secret and the Service are there.
	Namespace string
	// SecretName keeps the certificate and its authority. A Secret that is not there is made.
	SecretName string
	// ServiceName is the host the API server calls.
	ServiceName string
	// CertDir is where the Secret is mounted. Nothing is served from there; the rotator ends the program when the files do not come.
	CertDir string
	// Certificate is what the server serves with; it is kept up to date.
	Certificate *Certificate
	// MutatingWebhookConfig and ValidatingWebhookConfig get the authority. One that does not exist is passed over.
	MutatingWebhookConfig, ValidatingWebhookConfig string
	// Definitions, by name, whose conversion calls ServiceName get the authority too. Others, and those that do not exist, are passed over.
	Definitions []string

	// controllerName tells two managers of one process apart, in tests.
	controllerName string
}

// +kubebuilder:rbac:groups="",namespace=trellis-system,resources=secrets,resourceNames=trellis-webhook-server-cert,verbs=list;update;watch
// +kubebuilder:rbac:groups="",namespace=trellis-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=trellis-mutating-webhook-configuration,verbs=list;update;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=trellis-validating-webhook-configuration,verbs=list;update;watch

// SetupCertRotation makes the webhooks' certificate, renews it in time, serves it, and tells the webhook configurations and the definitions
// whom to trust. ready is closed once there is a certificate and it is trusted. It runs on every replica, not on the leader alone: a
// standby serves too.
//
// What the rotator calls ready is not waited for, because that needs the files in CertDir and looks for them at intervals that double: on a
// first start it may be minutes late.
func SetupCertRotation(mgr ctrl.Manager, opts CertOptions) (ready <-chan struct{}, err error) {
	if err := ensureSecret(mgr, opts); err != nil {
		return nil, err
	}
	host := opts.ServiceName + "." + opts.Namespace + ".svc"
	named := narrow(mgr, map[string]string{
		"secrets": opts.SecretName, "mutatingwebhookconfigurations": opts.MutatingWebhookConfig,
		"validatingwebhookconfigurations": opts.ValidatingWebhookConfig,
	})
	err = rotator.AddRotator(named, &rotator.CertRotator{
		SecretKey:      types.NamespacedName{Namespace: opts.Namespace, Name: opts.SecretName},
		CertDir:        opts.CertDir,
		CAName:         certAuthority,
		CAOrganization: "trellis",
		DNSName:        host,
		ExtraDNSNames:  []string{host + ".cluster.local", opts.ServiceName + "." + opts.Namespace},
		IsReady:        make(chan struct{}),
		Webhooks: []rotator.WebhookInfo{
			{Type: rotator.Mutating, Name: opts.MutatingWebhookConfig},
			{Type: rotator.Validating, Name: opts.ValidatingWebhookConfig},
		},
		FieldOwner:            fieldOwner,
		RequireLeaderElection: false,
		ControllerName:        opts.controllerName,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the webhooks' certificate in Secret %s/%s: %w", opts.Namespace, opts.SecretName, err)
	}
	served, err := follow(mgr, opts)
	if err != nil {
		return nil, err
	}
	return served.ready, nil
}
