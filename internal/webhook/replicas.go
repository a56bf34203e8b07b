// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/trellis-k8s/trellis/internal/replicas"
)

// plannerAccount is the ServiceAccount that Dynamo planners run as.
const plannerAccount = "planner-serviceaccount"

// Where a scaling adapter owns the replicas of a service, requests that change them fall in three:
//
//	the operator carries the adapter's number, a planner writes its own   passes
//	a manifest is applied again, whatever else it changes                 the number stays, with a warning if the manifest has another
//	anything else edits the number                                        refused, naming the adapter
//
// That a manifest is applied is seen by what kubectl apply leaves behind: the annotation with what was applied last, or, server-side, the
// field manager's entry. A number that was changed in the manifest itself is an edit, as far as that can be told, which is client-side.

// mayScale says that the request comes from somebody who writes the replicas of a deployment on an autoscaler's behalf.
func mayScale(req admission.Request) bool {
	user := req.UserInfo.Username
	return fieldManager(req) == replicas.FieldOwner ||
		strings.HasPrefix(user, "system:serviceaccount:") && strings.HasSuffix(user, ":"+plannerAccount)
}

func fieldManager(req admission.Request) string {
	options := metav1.PatchOptions{}
	if json.Unmarshal(req.Options.Raw, &options) != nil {
		return ""
	}
	return options.FieldManager
}

// keepReplicas puts back the numbers that adapters own where a manifest is applied, and returns a warning for each that the manifest has
// another for. It changes nothing that is not understood: validation comes after.
func keepReplicas(req admission.Request, updated *unstructured.Unstructured) []string {
	old := &unstructured.Unstructured{}
	if len(req.OldObject.Raw) == 0 || mayScale(req) || old.UnmarshalJSON(req.OldObject.Raw) != nil {
		return nil
	}
	applied := appliedServices(req, updated, old)
	var warnings []string
	now, before := servicesOf(updated.Object), servicesOf(old.Object)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		service, was := asMap(now[name]), asMap(before[name])
		if !handedOver(service) || !handedOver(was) || service["replicas"] == was["replicas"] {
			continue
		}
		kept, said := applied(name, service["replicas"])
		if !kept {
			continue
		}
		service["replicas"] = was["replicas"]
		if said {
			warnings = append(warnings, fmt.Sprintf("spec.services[%s].replicas stays %v: DynamoGraphDeploymentScalingAdapter %q owns it; leave replicas out of the manifest",
				name, was["replicas"], replicas.AdapterName(updated.GetName(), name)))
		}
	}
	return warnings
}

// appliedServices returns what tells whether a service's number comes from a manifest as it was before, and if so, whether the manifest
// says it or leaves it out.
func appliedServices(req admission.Request, updated, old *unstructured.Unstructured) func(service string, number any) (kept, said bool) {
	manager := fieldManager(req)
	for _, entry := range updated.GetManagedFields() {
		if manager != "" && entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			fields := map[string]any{}
			if entry.FieldsV1 != nil {
				_ = json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) // an empty list of fields otherwise
			}
			return func(service string, _ any) (kept, said bool) {
				_, said = asMap(asMap(asMap(fields["f:spec"])["f:services"])["f:"+service])["f:replicas"]
				return true, said
			}
		}
	}
	manifest, ok := lastApplied(updated)
	previous, known := lastApplied(old)
	return func(service string, number any) (kept, said bool) {
		written, said := asMap(manifest[service])["replicas"]
		if !ok || said && fmt.Sprint(written) != fmt.Sprint(number) || !said && fmt.Sprint(number) != "1" { // 1 is what the schema fills in
			return false, said
		}
		was, had := asMap(previous[service])["replicas"]
		return !said || !known || had && fmt.Sprint(was) == fmt.Sprint(written), said
	}
}

// lastApplied returns the services of the manifest that client-side kubectl apply applied last.
func lastApplied(o *unstructured.Unstructured) (services map[string]any, ok bool) {
	text := o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	manifest := map[string]any{}
	if text == "" || json.Unmarshal([]byte(text), &manifest) != nil {
		return nil, false
	}
	return servicesOf(manifest), true
}

func servicesOf(object map[string]any) map[string]any {
	return asMap(asMap(object["spec"])["services"])
}

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

func handedOver(service map[string]any) bool {
	return asMap(service["scalingAdapter"])["enabled"] == true
}

// warner answers with what the handler inside had to say. A Defaulter has no answer of its own.
type warner struct{ admission.Handler }

type warningsKey struct{}

// Handle implements admission.Handler.
func (w warner) Handle(ctx context.Context, req admission.Request) admission.Response {
	var said []string
	response := w.Handler.Handle(context.WithValue(ctx, warningsKey{}, &said), req)
	return response.WithWarnings(said...)
}

// warn adds to the answer of the request.
func warn(ctx context.Context, lines []string) {
	if said, ok := ctx.Value(warningsKey{}).(*[]string); ok {
		*said = append(*said, lines...)
	}
}
