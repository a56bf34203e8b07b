// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files reads Kubernetes objects from manifests as strictly as an API server does, and knows for each field the line it stands on.
//
// A file is a stream of YAML documents or JSON objects; a document may be a List. Every error is reported with the file, the line and the
// field, and all errors are reported together:
//
//	graph.yaml:12: spec.services.Worker.replica: unknown field
//
// What the API server would fill in, [Read] fills in too, so that an object means here what it means there.
package files
