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

// maxName is the length of a label's value, which the name of a Workload is.
const maxName = 63

// hashed is a name with a hash of what it is about, as long as a label's value may be. Images do not count: an update of them needs no
// other quota.
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

// shortHash is the 8 hex digits that tell identities apart.
func shortHash(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:4])
}

// baseName is the name of the Workload of the first replicas; "" where there is no group.
func baseName(groups []*trellisv1alpha1.ScalingGroup) string {
	if len(groups) == 0 {
		return ""
	}
	return withHash(groups[0].Spec.Graph+"-base", ownerOf(groups[0]))
}

// ownerOf is the UID of the deployment of a group.
func ownerOf(sg *trellisv1alpha1.ScalingGroup) string {
	if owner := metav1.GetControllerOfNoCopy(sg); owner != nil {
		return string(owner.UID)
	}
	return sg.Namespace + "/" + sg.Spec.Graph
}

// ownName is the name of the Workload of one replica that asks for what the group's replicas ask for now.
func ownName(sg *trellisv1alpha1.ScalingGroup, ordinal int32, roles []role) string {
	identity := ownerOf(sg)
	for i := range roles {
		identity += fmt.Sprintf("/%s x %d", roles[i].name, roles[i].count)
	}
	name := fmt.Sprintf("%s-%d", sg.Name, ordinal)
	return withHash(name, name+"/"+identity) // the name may be cut before the ordinal
}
