// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// installedKinds are the kinds that are applied from a chart. The Deployments of a chart run as processes instead.
var installedKinds = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "PriorityClass", "Queue",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

// chart renders a chart with helm, and returns its objects of the installedKinds.
func (r *starter) chart(ctx context.Context, dir string, p peer) ([]*unstructured.Unstructured, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/go.mod", "helm", "template", p.release(), dir, "--namespace="+
		p.namespace, "--no-hooks")
	cmd.Dir = r.root
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rendering the chart %s: %w: %s", dir, err, stderr.String())
	}
	return decode(&out, installedKinds...)
}

// definitionsIn are the custom resource definitions in the files of a folder.
func definitionsIn(dir string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definitions, err := decode(bytes.NewReader(data), "CustomResourceDefinition")
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		out = append(out, definitions...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no custom resource definitions", dir)
	}
	return out, nil
}

// decode reads the objects of the given kinds.
func decode(r io.Reader, kinds ...string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if slices.Contains(kinds, o.GetKind()) {
			all = append(all, o)
		}
	}
}

// accounts are the ServiceAccounts of a namespace that bindings name, since some charts do not contain them.
func accounts(all []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range all {
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			subject, _ := s.(map[string]any)
			if subject["kind"] != "ServiceAccount" || subject["namespace"] != namespace {
				continue
			}
			account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
			account.SetName(fmt.Sprint(subject["name"]))
			account.SetNamespace(namespace)
			out = append(out, account)
		}
	}
	return out
}

// direct sets the clients of a webhook configuration to a port of this machine instead of a Service.
func direct(o *unstructured.Unstructured, port int, ca string) error {
	if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
		return nil
	}
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return err
	}
	for i := range webhooks {
		webhook := webhooks[i].(map[string]any)
		path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		webhook["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d%s", port, path), "caBundle": ca}
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}

// sorted puts namespaces first and removes duplicate objects.
func sorted(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var first, rest []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, o := range objects {
		key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
		switch {
		case seen[key]:
		case o.GetKind() == "Namespace":
			first = append(first, o)
		default:
			rest = append(rest, o)
		}
		seen[key] = true
	}
	return append(first, rest...)
}
