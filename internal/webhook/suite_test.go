// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// How long a test waits for what must happen, and how often it looks.
const (
	patience  = time.Minute
	lookEvery = 100 * time.Millisecond
)

// suite is a real API server with the definitions and the webhooks that config/ ships, and two replicas of the operator that serve them with
// certificates of their own making.
type suite struct {
	env    *envtest.Environment
	scheme *runtime.Scheme
	// admin may do everything and collects warnings.
	admin  client.Client
	warned *warnings
	// leader and standby are two replicas of the operator, as far as webhooks go.
	leader, standby *replica
	// end ends the replicas.
	end context.CancelFunc
	// dir is where no kubelet mounts the certificate.
	dir string
}

// The suite is started by the first test that needs it, so that the tests of functions run without it, and stopped by TestMain.
var (
	shared      = &suite{}
	startShared = sync.OnceValue(shared.start)
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server and the replicas:", err)
		code = 1
	}
	os.Exit(rights.Of("webhook").Finish(code))
}

func (s *suite) start() error {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return errors.New("KUBEBUILDER_ASSETS is not set: run make test, or set it to what bin/kubectl-trellis sandbox binaries prints")
	}
	log.SetLogger(logr.Discard())
	s.scheme = testScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s.scheme), apiextensionsv1.AddToScheme(s.scheme)); err != nil {
		return err
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "trellis-webhook-"); err != nil {
		return err
	}
	s.env = &envtest.Environment{Scheme: s.scheme}
	config, err := apiserver.Launch(s.env)
	if err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	if err := s.install(config, port); err != nil {
		return fmt.Errorf("installing config/: %w", err)
	}
	return s.startReplicas(config, port)
}

// install applies the shipped manifests. Two things differ from a cluster: the Service leads to this machine, and to a free port.
func (s *suite) install(config *rest.Config, port int) error {
	crds, err := shippedDefinitions(port)
	if err != nil {
		return err
	}
	// Installed by the environment they would lose their conversion.
	if err := apiserver.Install(config, crds...); err != nil {
		return err
	}
	s.warned = &warnings{}
	listening := rest.CopyConfig(config)
	listening.WarningHandlerWithContext = s.warned
	listening.QPS = -1
	if s.admin, err = client.New(listening, client.Options{Scheme: s.scheme}); err != nil {
		return err
	}
	mutating, validating, service, secret, err := shipped()
	if err != nil {
		return err
	}
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.Service.Port = ptr.To(int32(port))
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.Service.Port = ptr.To(int32(port))
	}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}, &service, &secret, &mutating, &validating,
	} {
		if err := s.admin.Create(context.Background(), object); err != nil {
			return err
		}
	}
	return nil
}

// startReplicas returns when both replicas are ready. The API server calls the leader, at a port.
func (s *suite) startReplicas(config *rest.Config, port int) error {
	another, err := freePort()
	if err != nil {
		return err
	}
	if s.leader, err = newReplica("leader", config, s.scheme, s.dir, port); err != nil {
		return err
	}
	if s.standby, err = newReplica("standby", config, s.scheme, s.dir, another); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.leader.run(ctx)
	select {
	case <-s.leader.manager.Elected():
	case <-s.leader.ended:
		return errors.New("the leader ended")
	case <-time.After(patience):
		return errors.New("no replica leads")
	}
	s.standby.run(ctx)
	// No kubelet mounts the certificate here, and nobody waits for one.
	for _, r := range []*replica{s.leader, s.standby} {
		err := wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(context.Context) (bool, error) {
			return r.readiness() == http.StatusOK, nil
		})
		if err != nil {
			return fmt.Errorf("waiting until %s is ready: %w", r.ready, err)
		}
	}
	return nil
}

// stop ends what was started, in part or as a whole.
func (s *suite) stop() error {
	if s.env == nil {
		return nil
	}
	var errs []error
	if s.end != nil {
		s.end()
		for _, r := range []*replica{s.leader, s.standby} {
			errs = append(errs, r.wait())
		}
	}
	return errors.Join(append(errs, s.env.Stop(), os.RemoveAll(s.dir))...)
}

// shippedDefinitions are those of config/crd. Their calls lead to a port, as those of the webhooks do.
func shippedDefinitions(port int) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../config/crd")
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, r := range built.Resources() {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, err
		}
		if crd.Spec.Conversion != nil {
			crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(int32(port))
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
