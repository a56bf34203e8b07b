// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// maxName is the maximum length of a Workload's name. It is the maximum length of a label value, because labels contain the names of
// Workloads.
const maxName = 63

// hashed appends a hash of a pod template to a name, and limits the result to the length of a label value. The hash ignores images, because
// they do not affect the quota.
func hashed(name string, about corev1.PodTemplateSpec) string {
	about = *about.DeepCopy()
	for _, list := range [][]corev1.Container{about.Spec.Containers, about.Spec.InitContainers} {
		for i := range list {
			list[i].Image = ""
		}
	}
	return withHash(name, name+canonical(about.Spec))
}

func withHash(name, identity string) string {
	hash := shortHash(identity)
	keep := min(len(name), maxName-len(hash)-1)
	return strings.TrimRight(name[:keep], "-.") + "-" + hash
}

// shortHash returns the first 8 hex digits of an identity's hash.
func shortHash(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:4])
}

// baseName returns the name of the first replicas' Workload; "" if there are no scaling groups.
func baseName(groups []*trellisv1alpha1.ScalingGroup) string {
	if len(groups) == 0 {
		return ""
	}
	return withHash(groups[0].Spec.Graph+"-base", ownerOf(groups[0]))
}

// ownerOf returns the UID of the deployment that owns a scaling group.
func ownerOf(sg *trellisv1alpha1.ScalingGroup) string {
	if owner := metav1.GetControllerOfNoCopy(sg); owner != nil {
		return string(owner.UID)
	}
	return sg.Namespace + "/" + sg.Spec.Graph
}

// ownName returns the name of a replica's own Workload. The name depends on the quota that the scaling group's roles request now.
func ownName(sg *trellisv1alpha1.ScalingGroup, ordinal int32, roles []role) string {
	identity := ownerOf(sg)
	for i := range roles {
		identity += fmt.Sprintf("/%s x %d", roles[i].name, roles[i].count)
	}
	name := fmt.Sprintf("%s-%d", sg.Name, ordinal)
	return withHash(name, name+"/"+identity) // the name may be cut before the ordinal
}
