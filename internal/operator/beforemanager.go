// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/webhook"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

// Object names in the shipped manifests.
const (
	webhookSecret     = "trellis-webhook-server-cert"
	mutatingWebhook   = "trellis-mutating-webhook-configuration"
	validatingWebhook = "trellis-validating-webhook-configuration"
)

// front serves the webhooks, maintains their certificate, and serves the probes. It is a separate manager without leader election and
// without caches of deployments. The operator's caches need its path /convert, because the API server calls /convert for every object whose
// stored version differs from the listed version. The front therefore starts first and ends last.
type front struct {
	ctrl.Manager
	// served is closed once the API server trusts the served certificate.
	served <-chan struct{}
	// linger is the time for which the front still serves after the operator is told to stop.
	linger time.Duration
}

// newFront creates the front of the operator whose manager is mgr. The front's webhooks read the caches of mgr. Once ctx has ended, each
// response of the webhooks closes its connection. The front keeps certificate up to date.
func newFront(ctx context.Context, restConfig *rest.Config, o Options, mgr ctrl.Manager, certificate *webhook.Certificate) (*front, error) {
	own, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 mgr.GetScheme(),
		Metrics:                metricsserver.Options{BindAddress: "0"}, // the operator's manager serves all metrics of the program
		HealthProbeBindAddress: o.ProbeAddress,
		Controller:             ctrlconfig.Controller{SkipNameValidation: ptr.To(o.NewClient != nil)},
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Port: o.WebhookPort, TLSOpts: []func(*tls.Config){webhook.OldestTLS,
			certificate.ServeWith}}),
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	f := &front{Manager: own, linger: o.ShutdownDelay}
	if err := own.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if !o.Webhooks && !o.Conversion {
		served := make(chan struct{})
		close(served)
		f.served = served
		return f, own.AddReadyzCheck("ping", healthz.Ping)
	}
	f.served, err = webhook.SetupCertRotation(own, webhook.CertOptions{
		Namespace: o.Namespace, SecretName: webhookSecret, ServiceName: o.WebhookService, CertDir: o.WebhookCertDir, Certificate: certificate,
		MutatingWebhookConfig: mutatingWebhook, ValidatingWebhookConfig: validatingWebhook,
		Definitions: slices.Sorted(maps.Values(convert.Definitions)),
	})
	if err != nil {
		return nil, err
	}
	self, err := userName(restConfig)
	if err != nil {
		return nil, err
	}
	deployments, err := readDeployments(mgr, o.WatchNamespaces)
	if err != nil {
		return nil, err
	}
	evictions, err := readEvictions(mgr, own.GetClient(), o.Leaving)
	if err != nil {
		return nil, err
	}
	today, err := readCapacity(mgr, o.IgnoredResources)
	if err != nil {
		return nil, err
	}
	warnings := func(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []field.Text {
		return append(render.LaunchWarnings(dgd, alpha), field.Plain(today.warn(dgd))...)
	}
	notActedOn := func(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []render.Ignored {
		return render.NotActedOn(dgd, alpha, o.Provider)
	}
	return f, webhook.SetupWithManager(own, webhook.Options{
		Admission: o.Webhooks, Conversion: o.Conversion, NotActedOn: notActedOn, Warnings: warnings, Provider: o.Provider,
		CertsReady: f.served, Ending: ctx.Done(), Live: own.GetAPIReader(), Deployments: deployments, Evictions: evictions,
		MaxPods: o.MaxPodsPerGraph, ScalingUsers: append(slices.Clone(o.ScalingUsers), self), AnswerWithin: o.answerWithin,
	})
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=selfsubjectreviews,verbs=create

// userName returns the user name with which the API server authenticates the operator.
func userName(restConfig *rest.Config) (string, error) {
	api, err := authenticationv1.NewForConfig(restConfig)
	if err != nil {
		return "", fmt.Errorf("connecting to the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	review, err := api.SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking the API server for the operator's user name (selfsubjectreviews): %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// runBefore runs the front, and runs mgr once the front serves. It returns when ctx ends or one of the two managers ends.
//
// After ctx has ended, the front continues to serve for the time linger. The API server calls this replica of the operator until the
// Service has removed it and no connection is left, and an unanswered conversion would fail a read. During this time, each response closes
// its connection (see webhook.Options).
func (f *front) runBefore(ctx context.Context, mgr ctrl.Manager) error {
	group, running := errgroup.WithContext(context.WithoutCancel(ctx))
	frontCtx, stopFront := context.WithCancel(running)
	group.Go(func() error { return f.Start(frontCtx) })
	group.Go(func() error {
		defer stopFront()
		mgrCtx, stopMgr := context.WithCancel(ctx)
		defer context.AfterFunc(running, stopMgr)()
		defer stopMgr()
		select {
		case <-f.served:
		case <-mgrCtx.Done():
			return nil
		}
		if err := mgr.Start(mgrCtx); err != nil {
			return err
		}
		select {
		case <-time.After(f.linger):
		case <-running.Done():
		}
		return nil
	})
	return group.Wait()
}
