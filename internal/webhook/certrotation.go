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

// CertOptions configure the webhooks' certificate: its Secret, its host name, and the objects that must trust it.
type CertOptions struct {
	// Namespace is the operator's namespace, which contains the Secret and the Service.
	Namespace string
	// SecretName is the name of the Secret with the certificate and its authority. A missing Secret is created.
	SecretName string
	// ServiceName is the Service that the API server calls.
	ServiceName string
	// CertDir is the mount path of the Secret. The server does not read its files, but the rotator ends the program if the files do not
	// appear.
	CertDir string
	// Certificate is the certificate that the server uses; it is kept up to date.
	Certificate *Certificate
	// MutatingWebhookConfig and ValidatingWebhookConfig name the webhook configurations that get the certificate authority. A missing
	// configuration is skipped.
	MutatingWebhookConfig, ValidatingWebhookConfig string
	// Definitions names the CustomResourceDefinitions that also get the certificate authority, if their conversion webhook is ServiceName.
	// Other definitions and missing definitions are skipped.
	Definitions []string

	// controllerName distinguishes two managers of one process in tests.
	controllerName string
}

// +kubebuilder:rbac:groups="",namespace=trellis-system,resources=secrets,resourceNames=trellis-webhook-server-cert,verbs=list;update;watch
// +kubebuilder:rbac:groups="",namespace=trellis-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=trellis-mutating-webhook-configuration,verbs=list;update;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=trellis-validating-webhook-configuration,verbs=list;update;watch

// SetupCertRotation creates the webhooks' certificate, renews it in time, serves it, and writes its authority into the webhook
// configurations and the CustomResourceDefinitions. ready is closed once all these objects trust the certificate. Certificate rotation runs
// on every replica of the operator, not only on the leader, because a standby also serves webhooks.
//
// SetupCertRotation does not wait until the rotator is ready. The rotator looks for the files in CertDir at doubling intervals, so on a
// first start it may become ready minutes late.
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
