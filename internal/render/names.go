// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// The maximum length of a DNS label, and the lengths that names of scaling groups reserve for the suffixes of pod names: "-<ordinal>" or,
// for multinode, "-<ordinal>-<index>".
const (
	maxName               = validation.DNS1123LabelMaxLength
	ordinalLength         = len("-99999")
	multinodeSuffixLength = len("-99999-9999")
)

// headlessSuffix is the suffix of the headless Service that gives the pods of a multinode component their DNS names.
const headlessSuffix = "-pods"

// shortHash returns a hash of 8 hex digits, which keeps shortened names unique.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// dnsLabel lower-cases a name, replaces invalid characters with '-', and trims '-' from both ends. It does not limit the length.
func dnsLabel(name string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	return strings.Trim(mapped, "-")
}

// fit returns name if it has at most limit bytes. Otherwise it returns the beginning of name and the hash of identity, at most limit bytes
// in total.
func fit(name, identity string, limit int) string {
	if len(name) <= limit {
		return name
	}
	return hashed(name, identity, limit)
}

// hashed returns the beginning of name and the hash of identity, at most limit bytes in total.
func hashed(name, identity string, limit int) string {
	hash := shortHash(identity)
	keep := min(len(name), limit-len(hash)-1)
	return strings.TrimRight(name[:keep], "-") + "-" + hash
}

// LabelValue converts any text to a label value. It returns a valid value unchanged. Otherwise it replaces invalid characters by '-', and
// shortens the text and appends a hash, which keeps values unique. The hash follows a '_', which no name of a Kubernetes object contains,
// so a shortened name never equals a full name.
func LabelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	mapped := strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '-'
	}, s)
	hash := shortHash(s)
	keep := min(len(mapped), validation.LabelValueMaxLength-len(hash)-1)
	mapped = strings.Trim(mapped[:keep], "-._")
	if mapped == "" {
		return hash
	}
	return mapped + "_" + hash
}

// serviceNames are the object names of one component.
type serviceNames struct{ group, component, headless string }

// nameComponents names the objects of every component. It returns an error for each component whose objects would get the same names as the
// objects of another component.
func nameComponents(dgd *nvidiav1beta1.DynamoGraphDeployment) (map[string]serviceNames, []error) {
	var errs []error
	out := map[string]serviceNames{}
	taken := map[string]string{}
	for _, c := range Components(dgd) {
		name := c.Name
		path := PathOf(dgd, name)
		lower := dnsLabel(name)
		if lower == "" {
			errs = append(errs, invalid(path, "the name has no letter or digit that an object's name could be made of; rename the %s",
				field.WordComponent))
			continue
		}
		names := namesOf(dgd, name)
		out[name] = names
		for _, object := range []string{names.component, names.headless} {
			if other, clash := taken[object]; clash && object != "" {
				errs = append(errs, invalid(path, "its objects would have the same name %q as those of %s %q; names are lower-cased, so rename one "+
					"of them", object, field.WordComponent, other))
				break
			}
			taken[object] = name
		}
	}
	return out, errs
}

func namesOf(dgd *nvidiav1beta1.DynamoGraphDeployment, component string) serviceNames {
	_, multinode := dgd.Component(component).PodsPerReplica()
	full := strings.Trim(dnsLabel(dgd.Name)+"-"+dnsLabel(component), "-")
	identity := dgd.Name + "/" + component
	limit := maxName - ordinalLength
	if multinode {
		limit = maxName - multinodeSuffixLength
	}
	names := serviceNames{group: fit(full, identity, limit), component: fit(startWithLetter(full), identity, maxName)}
	if !multinode && shadowsMultinode(dgd, component) {
		names.group = hashed(full, identity, limit)
	}
	if multinode {
		names.headless = headlessName(names.group)
	}
	return names
}

// shadowsMultinode reports whether the deployment has a multinode component "x" next to this component "x-1". If this component is
// single-node, its replica 0 would get the same pod name as pod 0 of replica 1 of "x".
func shadowsMultinode(dgd *nvidiav1beta1.DynamoGraphDeployment, component string) bool {
	lower := dnsLabel(component)
	cut := strings.LastIndexByte(lower, '-')
	if cut < 0 {
		return false
	}
	if _, err := strconv.ParseUint(lower[cut+1:], 10, 64); err != nil {
		return false
	}
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if _, multinode := c.PodsPerReplica(); multinode && dnsLabel(c.Name) == lower[:cut] {
			return true
		}
	}
	return false
}

// headlessName returns the name of a scaling group's headless Service.
func headlessName(group string) string { return startWithLetter(group + headlessSuffix) }

// startWithLetter adds a prefix to a DNS label that begins with a digit. The result is a valid Service name in every version of Kubernetes.
func startWithLetter(name string) string {
	if name[0] >= '0' && name[0] <= '9' {
		return "svc-" + name
	}
	return name
}

// attemptInfix precedes the attempt in a host name.
const attemptInfix = "-a"

// hostName returns the host name of a pod in a multinode replica. At the first attempt, it equals the pod's name.
func hostName(pod string, attempt int32) string {
	if attempt < 2 {
		return pod
	}
	suffix := attemptInfix + strconv.Itoa(int(attempt))
	return fit(pod, pod, maxName-len(suffix)) + suffix
}

// HostAttempt returns the attempt in a pod's host name; 1 for a host name without an attempt. DNS servers and clients cache the address of
// a host name for its TTL, and the replica may be recreated within this time. Each attempt therefore has its own host names, so that no
// client uses a cached address of an earlier attempt's pod.
func HostAttempt(pod *corev1.Pod) int32 {
	at := strings.LastIndex(pod.Spec.Hostname, attemptInfix)
	if at < 0 {
		return 1
	}
	attempt, err := strconv.ParseInt(pod.Spec.Hostname[at+len(attemptInfix):], 10, 32)
	if err != nil || hostName(pod.Name, int32(attempt)) != pod.Spec.Hostname {
		return 1
	}
	return int32(attempt)
}

// podName returns the name of a pod. At the replica's first attempt, this is also the pod's host name.
func podName(group string, multinode bool, ordinal, index int32) string {
	suffix := "-" + strconv.Itoa(int(ordinal))
	if multinode {
		suffix += "-" + strconv.Itoa(int(index))
	}
	return fit(group, group, maxName-len(suffix)) + suffix
}

// PathOf returns the field path of a deployment's component.
func PathOf(dgd *nvidiav1beta1.DynamoGraphDeployment, name string) *field.Path {
	return field.Component(PlaceOf(dgd, name), name)
}

// PlaceOf returns the index of a component in the deployment's list of components; -1 for none.
func PlaceOf(dgd *nvidiav1beta1.DynamoGraphDeployment, name string) int {
	return slices.IndexFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool { return c.Name == name })
}
