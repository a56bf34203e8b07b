// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"strings"
	"testing"
)

// TestReadWrites checks that the operator's writes count anywhere, and those of others in the graphs' namespace, and that an incomplete
// line does not.
func TestReadWrites(t *testing.T) {
	const log = `{"verb":"create","user":{"username":"system:serviceaccount:trellis-system:trellis-controller-manager"},"objectRef":{"resource":"pods","namespace":"default"},"responseStatus":{"code":201}}
{"verb":"patch","user":{"username":"system:serviceaccount:trellis-system:trellis-controller-manager"},"objectRef":{"resource":"clustertopologies","subresource":"status"},"responseStatus":{"code":409}}
{"verb":"create","user":{"username":"system:kube-scheduler"},"objectRef":{"resource":"pods","subresource":"binding","namespace":"default"},"responseStatus":{"code":201}}
{"verb":"patch","user":{"username":"system:kwok"},"objectRef":{"resource":"nodes","subresource":"status"},"responseStatus":{"code":200}}
{"verb":"create","user":{"username":"system:kube-sch`
	writes, err := readWrites(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{User: operatorUser, Verb: "create", Resource: "pods"},
		{User: operatorUser, Verb: "patch", Resource: "clustertopologies/status", Refused: true},
		{User: "system:kube-scheduler", Verb: "create", Resource: "pods/binding"},
	}
	if !slices.Equal(writes, want) {
		t.Errorf("read %+v, want %+v", writes, want)
	}
	if !writes[0].ByOperator() || writes[2].ByOperator() {
		t.Errorf("writes are counted for the wrong user: %+v", writes)
	}
	if _, err := readWrites(strings.NewReader("no JSON\n")); err == nil {
		t.Error("a log that cannot be read is no error")
	}
}
