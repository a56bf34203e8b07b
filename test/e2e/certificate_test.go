// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("The Secret of the webhooks' certificate", func() {
	// The Secret of the webhooks' certificate is deleted while the operator runs, and while none does: it is made again each time, and writes are admitted and
	// converted. The first restart starts with the Secret that was made again.
	It("is recreated when it is deleted, whether or not the operator runs", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "certificate")
		w := e.newWorld(ctx, "certificate", racks(2, 8, "a/r0")...)
		name := key("trellis-system", "trellis-webhook-server-cert")
		lose := func() (was types.UID) {
			GinkgoHelper()
			secret := &corev1.Secret{}
			Expect(w.c.Get(ctx, name, secret)).To(Succeed())
			Expect(w.c.Delete(ctx, secret)).To(Succeed())
			return secret.UID
		}
		admits := func(was types.UID) {
			GinkgoHelper()
			w.until("the Secret is made again", func() error {
				secret := &corev1.Secret{}
				err := w.c.Get(ctx, name, secret)
				if err == nil && (secret.UID == was || len(secret.Data) < 4) {
					err = errors.New("it is the former one, or not filled yet")
				}
				return err
			})
			w.until("a write in v1alpha1 is admitted and converted", func() error {
				probe := w.graphOf("probe", "zone", services{"Worker": worker(1, 2, 8, "rack")})
				return w.c.Create(ctx, probe, client.DryRunAll)
			})
			wrong := w.graphOf("wrong", "moon", services{"Worker": worker(1, 2, 8, "rack")})
			Expect(w.c.Create(ctx, wrong)).To(MatchError(ContainSubstring("packDomain not found in cluster topology")))
		}
		start := func() {
			GinkgoHelper()
			Expect(e.cluster.StartManager(ctx, sandbox.ManagerOptions{})).To(Succeed())
		}

		By("while it runs")
		admits(lose())
		By("after a restart")
		e.stopOperator(ctx)
		start()
		admits("")
		By("while none runs")
		e.stopOperator(ctx)
		was := lose()
		start()
		admits(was)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		secret := get(w, &corev1.Secret{}, name.Namespace, name.Name)
		Expect(secret.Labels).To(HaveKeyWithValue("app.kubernetes.io/name", "trellis"))
		Expect(metav1.GetControllerOf(secret)).To(BeNil())
	}, SpecTimeout(suite.Timeout()))
})
