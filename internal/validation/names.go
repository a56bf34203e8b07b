// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// maxComponents is the maximum number of components in a deployment.
const maxComponents = 25

const componentNamePattern = `^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`

// headlessSuffix is the suffix of the headless Service for a multinode component's pods.
const headlessSuffix = "-pods"

var componentNameRegexp = regexp.MustCompile(componentNamePattern)

// objectName repeats the API server's rule for object names, for objects that the API server has not validated. It allows long names,
// because names that Trellis derives from them are shortened with a hash.
func objectName(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	path, name, prefix := field.NewPath("metadata", "name"), dgd.Name, false
	if name == "" {
		path, name, prefix = field.NewPath("metadata", "generateName"), dgd.GenerateName, true
	}
	if name == "" {
		return nil
	}
	var errs field.ErrorList
	for _, problem := range apivalidation.NameIsDNSSubdomain(name, prefix) {
		errs = append(errs, badValue(field.ErrorTypeInvalid, path, name, problem))
	}
	return errs
}

func componentCount(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	switch n := len(dgd.Spec.Components); {
	case n == 0:
		return one(field.Required(componentsPath, "%s must have at least one %s; add one, e.g. Frontend", componentsPath, field.WordComponent))
	case n > maxComponents:
		return one(&field.Error{Type: field.ErrorTypeTooMany, Field: componentsPath, BadValue: n,
			Detail: field.Say("must have at most %d %s; split the graph into several DynamoGraphDeployments", maxComponents, field.WordComponents)})
	}
	return nil
}

// componentName requires names that are valid as label values and, in lower case, as part of the names of pods and Services.
func componentName(s component) field.ErrorList {
	if len(s.name) > validation.LabelValueMaxLength {
		return one(&field.Error{Type: field.ErrorTypeTooLong, Field: s.path, BadValue: short(s.name),
			Detail: field.Say("a %s name must have at most %d characters; shorten it", field.WordComponent, validation.LabelValueMaxLength)})
	}
	if !componentNameRegexp.MatchString(s.name) {
		return one(badValue(field.ErrorTypeInvalid, s.path, s.name,
			"a %s name must consist of letters, digits, '-' or '.', and begin and end with a letter or digit; must match %s", field.WordComponent,
			componentNamePattern))
	}
	return nil
}

// inObjectNames returns the component's name in the form in which pods and Services contain it.
func (s component) inObjectNames() string {
	return strings.ReplaceAll(strings.ToLower(s.name), ".", "-")
}

// componentNamesDiffer refuses components whose names become equal in the names of pods and Services.
func componentNamesDiffer(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]string{}
	for _, s := range componentsOf(dgd) {
		name := s.inObjectNames()
		if first, ok := seen[name]; ok {
			errs = append(errs, badValue(field.ErrorTypeDuplicate, s.path, s.name,
				"collides with %s %q: in the names of pods and Services both become %q; rename one of them", field.WordComponent, short(first),
				short(name)))
			continue
		}
		seen[name] = s.name
	}
	return errs
}

// objectNamesDiffer refuses a component whose Service would get the name of a multinode component's headless Service.
func objectNamesDiffer(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	components := componentsOf(dgd)
	headless := map[string]string{}
	for _, s := range components {
		if s.multinode() {
			headless[s.inObjectNames()+headlessSuffix] = s.name
		}
	}
	var errs field.ErrorList
	for _, s := range components {
		if other, ok := headless[s.inObjectNames()]; ok {
			errs = append(errs, badValue(field.ErrorTypeInvalid, s.path, s.name,
				"its Service would have the name of the headless Service of multinode %s %q; rename one of the two %s", field.WordComponent,
				short(other), field.WordComponents))
		}
	}
	return errs
}
