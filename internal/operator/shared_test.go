// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
)

// shared is an API server that stores any number, as one did before the bounds, and no webhooks. Tests that install other definitions, or
// change these, start their own.
var shared = &apiserver.Shared{Prepare: func(config *rest.Config) error {
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "trellis-definitions-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeBoundless(dir); err != nil {
		return err
	}
	return conversion.Serve().Install(config, dir) // it serves as long as the API server
}}

// writeBoundless writes the definitions without the bounds of replicas and of nodes.
func writeBoundless(dir string) error {
	bases := filepath.Join("..", "..", "config", "crd", "bases")
	files, err := os.ReadDir(bases)
	if err != nil {
		return err
	}
	maximum := regexp.MustCompile(`(?m)^ *maximum: (4096|65536)\n`)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(bases, file.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), maximum.ReplaceAll(text, nil), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// newNamespace makes a namespace for a test. After the test it is empty: the next operator finds nothing to do there.
func newNamespace(t *testing.T, c client.Client) string {
	t.Helper()
	name := apiserver.Namespace(t, c)
	t.Cleanup(func() {
		for _, kind := range []client.Object{
			&nvidiav1alpha1.DynamoGraphDeployment{}, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{}, &trellisv1alpha1.ScalingGroup{},
			&corev1.Pod{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		} {
			if err := c.DeleteAllOf(context.Background(), kind, client.InNamespace(name), client.GracePeriodSeconds(0)); err != nil {
				t.Errorf("deleting what is left in namespace %s: %v", name, err)
			}
		}
	})
	return name
}

// newNode makes a node until the test ends.
func newNode(t *testing.T, c client.Client) string {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	if err := c.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), node) })
	return node.Name
}
