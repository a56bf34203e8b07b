// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Connect returns a client without a rate limit of its own, after the API server has served its discovery.
func Connect(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (api client.WithWatch) {
	ginkgo.GinkgoHelper()
	config.QPS = -1
	gomega.Eventually(ctx, func() (err error) {
		api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
		return err
	}).Should(gomega.Succeed(), "connecting to the API server")
	return api
}

// Answered repeats a call until the API server responds, for busy machines. An error from the server ends it.
func Answered(ctx context.Context, call func() error) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(ctx, func() error {
		err := call()
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			return gomega.StopTrying("the API server refuses it").Wrap(err)
		}
		return err
	}).Should(gomega.Succeed())
}

// KeepLogs copies a folder of logs, which is deleted together with its programs, and names the copy in the report of a failed spec.
func KeepLogs(from, to string) error {
	ginkgo.AddReportEntry("the logs of all programs are in", to, ginkgo.ReportEntryVisibilityFailureOrVerbose)
	return keep(from, to)
}

func keep(from, to string) error { return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))) }
