// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
)

// scalingUser is the user that carries the numbers of scaling adapters.
const scalingUser = "system:serviceaccount:trellis-system:trellis"

// replica is one operator process, as far as webhooks go.
type replica struct {
	manager ctrl.Manager
	port    int
	// live is what its admission reads past the cache.
	live *unreliable
	// ready is the address of its readiness check.
	ready string
}

func newReplica(name string, config *rest.Config, scheme *runtime.Scheme, certDir string, port int) (*replica, error) {
	probePort, err := ports.Free(nil)
	if err != nil {
		return nil, err
	}
	probes := fmt.Sprintf("127.0.0.1:%d", probePort)
	r, certificate := &replica{port: port, ready: "http://" + probes + "/readyz"}, &Certificate{}
	r.manager, err = ctrl.NewManager(rights.Of("webhook").Record(config, operatorNamespace), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		LeaderElection: true, LeaderElectionID: "trellis-manager.trellis.dev", LeaderElectionNamespace: operatorNamespace,
		LeaseDuration: ptr.To(2 * time.Hour), RenewDeadline: ptr.To(time.Hour), // a slow machine takes no one the lead
		WebhookServer: countingServer{webhook.NewServer(webhook.Options{Port: r.port, TLSOpts: []func(*tls.Config){certificate.ServeWith}})},
	})
	if err != nil {
		return nil, err
	}
	ready, err := SetupCertRotation(r.manager, CertOptions{
		Namespace: operatorNamespace, SecretName: certSecret, ServiceName: webhookService, CertDir: certDir, Certificate: certificate,
		MutatingWebhookConfig: mutatingConfigName, ValidatingWebhookConfig: validatingConfigName,
		Definitions: slices.Sorted(maps.Values(convert.Definitions)), controllerName: "cert-rotator-" + name,
	})
	if err != nil {
		return nil, err
	}
	r.live = &unreliable{Reader: r.manager.GetAPIReader()}
	return r, SetupWithManager(r.manager, Options{
		Live: r.live, Admission: true, Conversion: true, CertsReady: ready, MaxPods: 1000,
		Evictions: Evictions{
			Requests: evictions.Requests{Cached: r.manager.GetAPIReader(), Writer: r.manager.GetClient()}, Synced: func() bool { return true },
		}, ScalingUsers: []string{scalingUser},
		NotActedOn: func(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []render.Ignored {
			return render.NotActedOn(dgd, alpha, "")
		},
	})
}

// askedToDefault counts the requests to the defaulting webhook, of both replicas, when they arrive: the counter of controller-runtime counts
// them some time after their response.
var askedToDefault atomic.Int64

type countingServer struct{ webhook.Server }

func (s countingServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path == mutateDeploymentPath {
			askedToDefault.Add(1)
		}
		hook.ServeHTTP(w, r)
	}))
}

// run starts the replica, which runs until the suite ends.
func (r *replica) run() {
	running, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		if err := r.manager.Start(running); err != nil {
			AbortSuite("a replica ended: " + err.Error())
		}
	}()
	DeferCleanup(func() { end(); <-ended })
}

// readiness is the code that the replica's readiness check answers with, 0 if it does not answer.
func (r *replica) readiness() int {
	response, err := http.Get(r.ready)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
