// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// user changes one deployment, with the components Worker and Frontend, at random.
type user struct {
	*world
	rand  *rand.Rand
	graph string
	edits int
}

// someScale picks a component and a number of replicas.
func (u *user) someScale() (service string, n int) {
	return []string{"Worker", "Frontend"}[u.rand.IntN(2)], u.rand.IntN(4)
}

func (u *user) scaleSomehow() string {
	service, n := u.someScale()
	u.scale(u.graph, service, int32(n))
	return fmt.Sprintf("%s to %d", service, n)
}

// editImage may well go back to a revision that some replicas still run.
func (u *user) editImage() string {
	image := fmt.Sprintf("example.com/vllm:%d", u.rand.IntN(3))
	u.setImage(u.graph, "Worker", image)
	return image
}

func (u *user) editEnv() string {
	u.edits++
	u.patch(u.graph, fmt.Sprintf(`{"spec":{"envs":[{"name":"EDIT","value":"%d"}]}}`, u.edits))
	return strconv.Itoa(u.edits)
}

func (u *user) restart(how nvidiav1alpha1.RestartStrategyType) string {
	u.edits++
	u.patch(u.graph, fmt.Sprintf(`{"spec":{"restart":{"id":"%d","strategy":{"type":%q}}}}`, u.edits, how))
	return strconv.Itoa(u.edits)
}

// recreate deletes the deployment and creates it again at once.
func (u *user) recreate() string {
	old := u.dgd(u.graph)
	u.remove(old)
	u.createAgain(old)
	return ""
}

func (u *user) createAgain(old *nvidiav1alpha1.DynamoGraphDeployment) {
	fresh := &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, Annotations: old.Annotations}, Spec: old.Spec}
	fresh.Spec.Restart = nil // nothing runs that could be restarted: admission refuses it
	u.until("it is created", func() error { return u.c.Create(u.t.Context(), fresh.DeepCopy()) })
}

// soakUser is one graph's user.
type soakUser struct {
	user
	// alive: the graph exists; arrived: it did once.
	alive, arrived bool
}

// act does one thing with the graph: creates it where there is none.
func (u *soakUser) act(s *soak) {
	if !u.alive {
		nodes, gpus := []int32{1, 2, 2, 4}[u.rand.IntN(4)], 4<<u.rand.IntN(2)
		u.create(u.graphOf(u.graph, "zone", services{"Worker": worker(int32(u.rand.IntN(4)), nodes, gpus, "rack"), "Frontend": frontend(int32(u.rand.IntN(3)))}))
		u.alive, u.arrived = true, true
		return
	}
	actions := []struct {
		name string
		do   func() string
	}{
		{"scaled", u.scaleSomehow}, {"scaled", u.scaleSomehow}, {"scaled", u.scaleSomehow}, {"image changed", u.editImage}, {"environment changed", u.editEnv},
		{"restarted", func() string { return u.restart(nvidiav1alpha1.RestartStrategySequential) }},
		{"restarted at once", func() string { return u.restart(nvidiav1alpha1.RestartStrategyParallel) }},
		{"recreated", u.recreate}, {"deleted", u.delete},
	}
	a := actions[u.rand.IntN(len(actions))]
	s.audit.episodes.strike("graph "+a.name, u.graph)
	a.do()
}

func (u *soakUser) delete() string {
	u.remove(u.dgd(u.graph))
	u.alive = false
	return ""
}
