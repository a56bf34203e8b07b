// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Definition is the name of the CustomResourceDefinition of LeaderWorkerSets.
const Definition = "leaderworkersets.leaderworkerset.x-k8s.io"

// needed lists the fields that the provider depends on. If the API server dropped one of them, pods would be ungated, impossible to find,
// or incomplete.
var needed = []string{
	"replicas", "startupPolicy", "networkConfig.subdomainPolicy", "leaderWorkerTemplate.size", "leaderWorkerTemplate.restartPolicy",
	"leaderWorkerTemplate.leaderTemplate.metadata.labels", "leaderWorkerTemplate.leaderTemplate.metadata.annotations",
	"leaderWorkerTemplate.leaderTemplate.spec.schedulingGates",
	"leaderWorkerTemplate.workerTemplate.metadata.labels", "leaderWorkerTemplate.workerTemplate.metadata.annotations",
	"leaderWorkerTemplate.workerTemplate.spec.schedulingGates",
}

// Served returns the reason and the message of the condition ProviderReady if the served LeaderWorkerSets lack the version or a field that
// Trellis needs; "" if they lack none.
func Served(crd *apiextensionsv1.CustomResourceDefinition) (reason, message string) {
	for _, version := range crd.Spec.Versions {
		if version.Name != Kind.Version || !version.Served || version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		for _, path := range needed {
			if !knows(version.Schema.OpenAPIV3Schema.Properties["spec"], strings.Split(path, ".")) {
				return nvidiav1beta1.ReasonFieldsDropped, fmt.Sprintf("the LeaderWorkerSet that is served has no spec.%s; install a newer release "+
					"of LeaderWorkerSet", path)
			}
		}
		return "", ""
	}
	return nvidiav1beta1.ReasonAPINotServed, fmt.Sprintf("%s is not served in version %s; install LeaderWorkerSet", crd.Name, Kind.Version)
}

// knows reports whether a schema has the field at path, or preserves unknown fields.
func knows(schema apiextensionsv1.JSONSchemaProps, path []string) bool {
	if len(path) == 0 || schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		return true
	}
	next, known := schema.Properties[path[0]]
	return known && knows(next, path[1:])
}
