// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = DescribeTable("Admission is asked about an object until it is being deleted", func(ctx SpecContext, version string) {
	s := newServer(ctx)
	object := graphOf(version, "replicas: 1")
	object.SetGenerateName("deleted-")
	object.SetName("")
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)
	object.SetFinalizers([]string{"example.com/others"})
	s.create(object)
	const unfinalized = `{"metadata":{"finalizers":null}}`
	patch := func(text string) func() error {
		return func() error {
			return s.admin.Patch(s.ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}

	const relabelled = `{"metadata":{"labels":{"a":"b"}}}`
	const invalid = `{"metadata":{"annotations":{"nvidia.com/vllm-distributed-executor-backend":"carrier-pigeon"}}}`
	s.get(object)
	Expect(object.GetDeletionTimestamp()).To(BeNil(), "the timestamp that its creator set")
	s.wantAskedToDefault(1, patch(relabelled))
	s.wantRefused(patch(invalid)(), "carrier-pigeon")
	s.wantRefused(patch(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)(), "metadata.deletionTimestamp", "field is immutable")

	Expect(s.admin.Delete(ctx, object.DeepCopy())).To(Succeed())
	// The API server applies a patch to the object of its watch cache first, and asks for that, too, if it is behind.
	Eventually(ctx, func() (*metav1.Time, error) {
		cached, fromCache := object.DeepCopy(), &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
		err := s.admin.Get(ctx, client.ObjectKeyFromObject(object), cached, fromCache)
		return cached.GetDeletionTimestamp(), err
	}).ShouldNot(BeNil(), "the deletion in the watch cache")
	s.wantAskedToDefault(0, patch(`{"metadata":{"labels":{"a":"c"}}}`))
	s.wantAskedToDefault(0, patch(invalid))
	s.wantAskedToDefault(0, patch(unfinalized))
	s.wantGone(object)
}, eachVersion())
