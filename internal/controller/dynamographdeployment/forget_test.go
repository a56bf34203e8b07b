// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

// entries counts what the maps hold in a struct, and in the structs in it, by field.
func entries(v reflect.Value, path string, into map[string]int) {
	for i := range v.NumField() {
		field, name := v.Field(i), path+"."+v.Type().Field(i).Name
		switch field.Kind() {
		case reflect.Map:
			into[name] += field.Len()
		case reflect.Struct:
			entries(field, name, into)
		}
	}
}

// Nothing is remembered of deployments that are gone, or the operator's memory would grow with each that comes and goes.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := nvidiav1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Deployments: fake.NewClientBuilder().WithScheme(scheme).Build()}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1"}}
	name := types.NamespacedName{Namespace: "ns", Name: "g"}
	count := func() map[string]int {
		out := map[string]int{}
		entries(reflect.ValueOf(r).Elem(), "", out)
		r.sshKeys.Range(func(any, any) bool { out["sshKeys"]++; return true })
		return out
	}
	secrets := fake.NewClientBuilder().Build()
	keys := &Reconciler{Client: secrets}
	if err := keys.createSSHKeys(t.Context(), dgd); err != nil {
		t.Fatal(err)
	}
	keys.sshKeys.Range(func(key, value any) bool { r.sshKeys.Store(key, value); return true })
	r.written.Wrote(name)
	r.written.First(name, pace.Interval)
	r.uncached.add(dgd, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}})
	for _, field := range []string{".written.last", ".written.begun", ".written.waiting", ".uncached.of", "sshKeys"} {
		if got := count(); got[field] != 1 {
			t.Errorf("%s is not what is counted: %v", field, got)
		}
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
		t.Fatal(err)
	}
	for field, n := range count() {
		if n > 0 {
			t.Errorf("%s holds %d", field, n)
		}
	}
}
