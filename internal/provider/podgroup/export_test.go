// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

// For tests of the package, which are outside it because podgrouptest imports it.
const (
	AnnotationGroups = annotationGroups
	OtherTemplate    = otherTemplate
)

// Functions for tests.
var (
	GroupName    = groupName
	PodSpec      = podSpec
	TemplateName = templateName
)
