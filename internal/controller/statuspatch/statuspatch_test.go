// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package statuspatch

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// What the API server answers when the object is gone, or is another one, is no error. All else is.
func TestErrors(t *testing.T) {
	refused := func(kind string, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusUnprocessableEntity, Reason: reason, Details: &metav1.StatusDetails{Kind: kind},
		}}
	}
	for name, tc := range map[string]struct {
		answer  error
		written bool
		fails   bool
	}{
		"written": {written: true},
		"gone":    {answer: apierrors.NewNotFound(corev1.Resource("pods"), "p")},
		"another one": {answer: apierrors.NewGenericServerResponse(
			http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value /metadata/uid failed: test failed", 0, false)},
		"not valid":                      {answer: refused("Pod", metav1.StatusReasonInvalid), fails: true},
		"refused with this code alone":   {answer: &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity}}, fails: true},
		"not valid, without details":     {answer: &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, fails: true},
		"refused without a reason":       {answer: refused("", ""), fails: true},
		"refused for another reason":     {answer: refused("", metav1.StatusReasonForbidden), fails: true},
		"a conflict, which has no cause": {answer: apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("changed")), fails: true},
		"no answer":                      {answer: context.DeadlineExceeded, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
			c := fake.NewClientBuilder().WithObjects(pod).WithStatusSubresource(pod).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, of string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					if tc.answer != nil {
						return tc.answer
					}
					return c.SubResource(of).Patch(ctx, o, patch, opts...)
				},
			}).Build()
			written, err := Write(t.Context(), c, pod.DeepCopy(), corev1.PodStatus{Phase: corev1.PodRunning})
			if written != tc.written || (err != nil) != tc.fails {
				t.Errorf("written %v, error %v; want %v, an error %v", written, err, tc.written, tc.fails)
			}
			now := &corev1.Pod{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), now); err != nil || (now.Status.Phase == corev1.PodRunning) != tc.written {
				t.Errorf("the phase is %q (%v)", now.Status.Phase, err)
			}
		})
	}
}
