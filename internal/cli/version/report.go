// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version is kubectl trellis version: it reports the builds of the plugin and of the operator in the cluster.
//
//	Client:   v0.1.0 (commit 4450ab3f330f, go1.26.8, linux/amd64)
//	Operator: v0.1.0 (image ghcr.io/trellis-k8s/trellis-manager:v0.1.0, namespace trellis-system)
package version

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/version"
)

// container is the manager's container in its pod.
const container = "manager"

// Versions is the report, and its JSON form.
type Versions struct {
	Client version.Info `json:"client"`
	// Operators of the cluster, normally one. null if the command did not query the cluster.
	Operators []Operator `json:"operators"`
	// Problem is the reason why Operators is empty.
	Problem string `json:"problem,omitempty"`
}

// Operator is one Deployment of the manager.
type Operator struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	// Version is the image's tag; empty if the image has only a digest.
	Version string `json:"version,omitempty"`
}

// operators reads the images from the Deployments of the manager.
func operators(deployments []appsv1.Deployment) []Operator {
	out := []Operator{}
	for _, d := range deployments {
		for _, c := range d.Spec.Template.Spec.Containers {
			if c.Name == container {
				out = append(out, Operator{Namespace: d.Namespace, Name: d.Name, Image: c.Image, Version: tag(c.Image)})
			}
		}
	}
	return out
}

// tag returns the tag of an image; "" if the image has no tag. A colon before the last slash belongs to the port of the registry.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// Refs returns the Deployments of the operator.
func (r Versions) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Operators))
	for _, o := range r.Operators {
		refs = append(refs, cli.Ref{Kind: "Deployment", Group: "apps", Name: o.Name})
	}
	return refs
}

// Text renders the report for people. Long lines are wrapped between words.
func (r Versions) Text(p text.Page) string {
	var b strings.Builder
	b.WriteString(p.Wrap(fmt.Sprintf("Client:   %s", r.Client), "  ") + "\n")
	for _, o := range r.Operators {
		label := o.Version
		if label == "" {
			label = "unknown"
		}
		b.WriteString(p.Wrap(fmt.Sprintf("Operator: %s (image %s, namespace %s)", label, o.Image, o.Namespace), "  ") + "\n")
	}
	if r.Problem != "" {
		b.WriteString(p.Wrap("Operator: unknown: "+r.Problem, "  ") + "\n")
	}
	return b.String()
}
