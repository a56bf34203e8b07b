// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stored holds the custom resource definitions of commit 886ffe1, which served and stored only v1alpha1, and reads the stored
// versions of objects from etcd.
package stored

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// files are the compressed config/crd/bases of that commit. They must not change, because clusters have them.
//
//go:embed definitions/*.yaml.gz
var files embed.FS

// ReleasedDefinitions returns all definitions of that commit.
func ReleasedDefinitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir("definitions")
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, entry := range entries {
		raw, err := files.ReadFile("definitions/" + entry.Name())
		if err != nil {
			return nil, err
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", entry.Name(), err)
		}
		text, err := io.ReadAll(unpacked)
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", entry.Name(), err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// Object is an object as stored in etcd.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// InEtcd reads the objects of a custom resource from etcd through its HTTP gateway at url.
func InEtcd(ctx context.Context, c *http.Client, url, group, resource string) ([]Object, error) {
	prefix := "/registry/" + group + "/" + resource + "/"
	body, err := json.Marshal(map[string][]byte{"key": []byte(prefix), "range_end": []byte(strings.TrimSuffix(prefix, "/") + "0")})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/kv/range", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var found struct {
		KVs []struct {
			Value string `json:"value"`
		} `json:"kvs"`
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("etcd answers %s: %w", response.Status, err)
	}
	var out []Object
	for _, kv := range found.KVs {
		raw, err := base64.StdEncoding.DecodeString(kv.Value)
		if err != nil {
			return nil, err
		}
		object := Object{}
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}
