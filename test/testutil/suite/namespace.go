// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// described are the kinds in the report of a failed spec.
var described = []schema.GroupVersionKind{
	{Group: "nvidia.com", Version: "v1beta1", Kind: "DynamoGraphDeploymentList"},
	{Group: "nvidia.com", Version: "v1beta1", Kind: "DynamoGraphDeploymentScalingAdapterList"},
	{Group: "trellis.dev", Version: "v1alpha1", Kind: "ScalingGroupList"},
	{Version: "v1", Kind: "PodList"},
	{Group: "events.k8s.io", Version: "v1", Kind: "EventList"},
}

// Namespace creates a unique namespace for a spec. The report of a failed spec shows its content, before anything is deleted.
func Namespace(c client.Client) string {
	ginkgo.GinkgoHelper()
	name := apiserver.Namespace(ginkgo.GinkgoTB(), c)
	ginkgo.DeferOnFailure(func(ctx ginkgo.SpecContext) {
		ginkgo.AddReportEntry("the objects in "+name, describe(ctx, c, name), ginkgo.ReportEntryVisibilityFailureOrVerbose)
	}, ginkgo.NodeTimeout(Patience()))
	return name
}

// describe returns the objects of a namespace as YAML, and the error of a kind that is not served, or not converted.
func describe(ctx context.Context, c client.Reader, namespace string) string {
	var out strings.Builder
	for _, kind := range described {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			fmt.Fprintf(&out, "# %s: %v\n", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
			text, err := yaml.Marshal(list.Items[i].Object)
			if err != nil {
				text = []byte(err.Error())
			}
			fmt.Fprintf(&out, "---\n%s", text)
		}
	}
	return out.String()
}
