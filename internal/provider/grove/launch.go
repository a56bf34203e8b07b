// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/render"
)

// envWorker is Grove's environment variable with the index of a pod in its clique, from 0. Grove adds its variables after all others, so no
// other variable can refer to this one.
const envWorker = "GROVE_PCLQ_POD_INDEX"

// podSpec returns the pod spec of a role, with its ServiceAccount and, if multinode, the environment variables for its launch command.
func (n names) podSpec(sg *trellisv1alpha1.ScalingGroup, role *trellisv1alpha1.Role) corev1.PodSpec {
	spec := *role.Template.Spec.DeepCopy()
	spec.ServiceAccountName = render.AccountOf(&role.Template, sg.Spec.Graph)
	if !sg.Spec.Multinode {
		return spec
	}
	worker := role.Name == render.RoleWorker
	vars := n.podVars(sg, worker)
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].Env = slices.Concat(vars, list[i].Env)
			if worker && (mentionsIndex(&list[i]) || &list[i] == &spec.Containers[0]) {
				countWorker(&list[i])
			}
		}
	}
	return spec
}

// podVars returns the environment variables that Trellis' own pods also have. The replica's ordinal comes from a label that Grove sets; the
// other variables refer to it.
func (n names) podVars(sg *trellisv1alpha1.ScalingGroup, worker bool) []corev1.EnvVar {
	vars := []corev1.EnvVar{{Name: framework.EnvReplica, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + LabelReplica + "']"},
	}}}
	for _, v := range framework.PodVars(0, 0, render.PodsPerReplica(sg), func(index int32) string {
		return n.address(sg, "$("+framework.EnvReplica+")", index)
	}) {
		if v.Name == framework.EnvReplica || worker && v.Name == framework.EnvPodIndex {
			continue
		}
		vars = append(vars, v)
	}
	return vars
}

func mentionsIndex(c *corev1.Container) bool {
	return slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(word string) bool {
		return strings.Contains(word, framework.EnvPodIndex)
	})
}

// countWorker sets a worker's index in the replica to Grove's index plus one, because the leader has index 0. Only a shell can add numbers,
// so a shell starts the command. The shell gets the words of the command as parameters. A word that contains the index is joined from
// several parameters.
//
//	python3 -m dynamo.sglang --node-rank $(TRELLIS_POD_INDEX)
//	sh -c 'TRELLIS_POD_INDEX=...; exec "${1}" "${2}" "${3}" "${4}" "$TRELLIS_POD_INDEX"' sh python3 -m dynamo.sglang --node-rank
//
// A container without a command runs its image's entry point. A shell cannot start this entry point, so the container gets no index.
func countWorker(c *corev1.Container) {
	if len(c.Command) == 0 {
		return
	}
	var script strings.Builder
	fmt.Fprintf(&script, "%s=$((%s + 1)); export %[1]s; exec", framework.EnvPodIndex, envWorker)
	var parameters []string
	for _, word := range slices.Concat(c.Command, c.Args) {
		script.WriteString(" ")
		for i, part := range strings.Split(word, "$("+framework.EnvPodIndex+")") {
			if i > 0 {
				script.WriteString(`"$` + framework.EnvPodIndex + `"`)
			}
			if part != "" || word == "" {
				parameters = append(parameters, part)
				fmt.Fprintf(&script, `"${%d}"`, len(parameters))
			}
		}
	}
	c.Command = slices.Concat([]string{"/bin/sh", "-c", script.String(), "sh"}, parameters)
	c.Args = nil
}
