// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// Without this the specs on manifests could pass on manifests that use few fields.
func TestEveryFieldIsCovered(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "every-field.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	collect("", manifest.Parse(t, string(text))["spec"], written)
	for _, path := range fieldPaths("", reflect.TypeFor[nvidiav1alpha1.DynamoGraphDeploymentSpec]()) {
		if !written[path] && path != ".services.topologyConstraint.topologyProfile" {
			t.Errorf("testdata/every-field.yaml has no %s", path)
		}
	}
}

func collect(path string, value any, into map[string]bool) {
	into[path] = true
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if strings.HasSuffix(path, ".services") {
				collect(path+"*", child, into) // the key is a name, not a field
				continue
			}
			collect(strings.TrimSuffix(path, "*")+"."+key, child, into)
		}
	case []any:
		for _, child := range v {
			collect(path, child, into)
		}
	}
}

// fieldPaths are the JSON paths of all fields of our own types below one.
func fieldPaths(path string, of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || !strings.HasSuffix(of.PkgPath(), "trellis/api/nvidia/v1alpha1") {
		return nil
	}
	var all []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			all = append(all, path+"."+name)
			all = append(all, fieldPaths(path+"."+name, field.Type)...)
		}
	}
	return all
}
