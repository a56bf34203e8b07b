// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files reads Kubernetes objects from manifests as strictly as an API server does, and reports the line of each faulty field.
//
// A file is a stream of YAML documents or JSON objects; a document may be a List. Errors contain the file, the line and the field, and
// all errors are reported together:
//
//	graph.yaml:12: spec.services.Worker.replica: unknown field
//
// [Read] sets the API server's defaults, so that an object has the same meaning as in the cluster.
package files
