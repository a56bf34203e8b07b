// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Definition is the name of the kind's definition.
const Definition = "leaderworkersets.leaderworkerset.x-k8s.io"

// needed are the fields of which one that is dropped would give pods that are not as the provider wants them: not gated, not where they are
// found, or not all there.
var needed = []string{
	"replicas", "startupPolicy", "networkConfig.subdomainPolicy", "leaderWorkerTemplate.size", "leaderWorkerTemplate.restartPolicy",
	"leaderWorkerTemplate.leaderTemplate.metadata.labels", "leaderWorkerTemplate.leaderTemplate.metadata.annotations",
	"leaderWorkerTemplate.leaderTemplate.spec.schedulingGates",
	"leaderWorkerTemplate.workerTemplate.metadata.labels", "leaderWorkerTemplate.workerTemplate.metadata.annotations",
	"leaderWorkerTemplate.workerTemplate.spec.schedulingGates",
}

// Served explains why the LeaderWorkerSets that the API server serves are not enough, as reason and message of the condition
// ProviderReady, or "".
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

// knows reports whether a schema keeps a field.
func knows(schema apiextensionsv1.JSONSchemaProps, path []string) bool {
	if len(path) == 0 || schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		return true
	}
	next, known := schema.Properties[path[0]]
	return known && knows(next, path[1:])
}
