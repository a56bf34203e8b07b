// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// The operator understands what it is started with, and what it expects is there.
func TestOperatorTakesItsArguments(t *testing.T) {
	tier.All(t)
	variants := installs(t)
	var err error
	if variants["helm, all set"], err = chart(
		namespace, `watchNamespaces=["team-a","team-b"]`, `requeueAfter="45s"`, `holdFor="1m30s"`, `moveTimeout="3m"`, `leavingTaints=["example.com/gone","gone"]`, `maxPodsPerGraph=2000000`, `ignoredResources=["example.com/gpumem","vendor.example"]`, `reserveDomainAfter="5m"`, `reserveDomainFor="10m"`, `reserveShare=0.25`, `repackAfter="5m"`, `repackMaxGPUs=64`, `platform={"natsServer":"nats://n:4222","etcdEndpoints":"e1:2379,e2:2379","modelExpressURL":"http://m","prometheusEndpoint":"http://p:9090"}`, `logging={"level":"debug","format":"console"}`,
	); err != nil {
		t.Fatal(err)
	}
	for name, install := range variants {
		t.Run(name, func(t *testing.T) {
			pod := one[appsv1.Deployment](t, install, "Deployment").Spec.Template.Spec
			o := parse(t, pod.Containers[0].Args)
			if o.Namespace = namespace; o.Complete() != nil {
				t.Error(o.Complete())
			}
			platform := render.Platform{NATS: "nats://n:4222", ETCD: "e1:2379,e2:2379", ModelExpress: "http://m", Prometheus: "http://p:9090"}
			if set := name == "helm, all set"; set != (o.Platform == platform) {
				t.Errorf("what graphs share is %+v", o.Platform)
			}
			if want := map[bool]int64{true: 2_000_000, false: 10_000}[name == "helm, all set"]; o.MaxPodsPerGraph != want {
				t.Errorf("a graph may have %d pods, want %d", o.MaxPodsPerGraph, want)
			}
			if set := name == "helm, all set"; set != slices.Equal(o.IgnoredResources, []string{"example.com/gpumem", "vendor.example"}) {
				t.Errorf("ignored are %q", o.IgnoredResources)
			}
			if set := name == "helm, all set"; set != (o.ReserveDomainAfter == 5*time.Minute) || set != (o.ReserveDomainFor == 10*time.Minute) || set != (o.ReserveShare == 0.25) {
				t.Errorf("hosts are reserved after %s for %s, at most %v of the nodes", o.ReserveDomainAfter, o.ReserveDomainFor, o.ReserveShare)
			}
			if set := name == "helm, all set"; set != (o.MoveTimeout == 3*time.Minute) || set != slices.Equal(o.Leaving.Taints, []string{"example.com/gone", "gone"}) {
				t.Errorf("replicas wait for %s, and leave nodes with the taints %q", o.MoveTimeout, o.Leaving.Taints)
			}
			if set := name == "helm, all set"; set != (o.RepackAfter == 5*time.Minute) || set != (o.RepackMaxGPUs == 64) {
				t.Errorf("replicas move after %s, at most %d GPUs", o.RepackAfter, o.RepackMaxGPUs)
			}
			if all[corev1.Service](t, install, "Service")[o.WebhookService] == nil {
				t.Errorf("no Service %s, which the certificate is made for", o.WebhookService)
			}
			if mount := pod.Containers[0].VolumeMounts[0]; mount.MountPath != o.WebhookCertDir || mount.Name != pod.Volumes[0].Name {
				t.Errorf("the certificate is looked for in %s, and %v is mounted", o.WebhookCertDir, mount)
			}
			secrets := all[corev1.Secret](t, install, "Secret")
			if secret := secrets[pod.Volumes[0].Secret.SecretName]; secret == nil || len(secret.Data) > 0 {
				t.Errorf("want one empty Secret %s, found %v", pod.Volumes[0].Secret.SecretName, secrets)
			}
		})
	}
}

// parse reads the arguments as cmd/trellis-manager does.
func parse(t *testing.T, args []string) operator.Options {
	t.Helper()
	o, logging := operator.Options{}, zap.Options{}
	flags, goFlags := pflag.NewFlagSet("trellis-manager", pflag.ContinueOnError), flag.NewFlagSet("trellis-manager", flag.ContinueOnError)
	o.AddFlags(flags)
	logging.BindFlags(goFlags)
	flags.AddGoFlagSet(goFlags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}
