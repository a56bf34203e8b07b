// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func restart(strategy string) string { return `spec: {restart: {id: "1", strategy: ` + strategy + `}}` }

func TestRestart(t *testing.T) {
	tests := map[string]struct {
		change string
		want   refusal
	}{
		"restart":                      {change: `spec: {restart: {id: "1"}}`},
		"restart without id":           {change: `spec: {restart: {strategy: {}}}`, want: refusal{"spec.restart.id", "Required value"}},
		"restart with an empty id":     {change: `spec: {restart: {id: ""}}`, want: refusal{"spec.restart.id", "should be at least 1 chars long"}},
		"restart in order":             {change: restart(`{order: [Worker, Frontend]}`)},
		"restart with an empty order":  {change: restart(`{type: Parallel, order: []}`)},
		"restart of an unknown type":   {change: restart(`{type: Random}`), want: refusal{"spec.restart.strategy.type", "Unsupported value"}},
		"restart parallel in order":    {change: restart(`{type: Parallel, order: [Worker, Frontend]}`), want: refusal{"spec.restart.strategy.order", "cannot be specified when strategy is parallel"}},
		"restart with a service twice": {change: restart(`{order: [Worker, Worker]}`), want: refusal{"spec.restart.strategy.order", "must be unique"}},
		"restart with an unknown one":  {change: restart(`{order: [Worker, Router]}`), want: refusal{"spec.restart.strategy.order", "contains unknown service"}},
		"restart with 26 services":     {change: restart("{order: [" + strings.Repeat("Worker, ", 26) + "]}"), want: refusal{"spec.restart.strategy.order", "must have at most 25 items"}},
		"restart with one missing":     {change: restart(`{order: [Worker]}`), want: refusal{"spec.restart.strategy.order", "must have the same number of unique services as the deployment"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obj := mustCreate(t, deployments, object(t, graph, "metadata: {name: "+objectName(t)+"}"))
			_, err := patch(t, deployments, obj.GetName(), tt.change)
			tt.want.check(t, err)
		})
	}
}

// TestRestartOnCreate: a new object asks for no restart. One that is there is applied with the same request and with another one.
func TestRestartOnCreate(t *testing.T) {
	refused := refusal{"spec.restart", "spec.restart must be unset on create; set spec.restart.id after creation to request a restart: apply the object without it, then set it"}
	name := "metadata: {name: restarted-on-create}"
	_, err := create(t, deployments, object(t, graph, name, `spec: {restart: {id: "1"}}`), metav1.DryRunAll)
	refused.check(t, err)
	beta := object(t, betaGraph, name, `spec: {restart: {id: "1"}}`)
	_, err = client.Resource(betaDeployments).Namespace(namespace).Create(t.Context(), beta, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	refused.check(t, err)

	obj := mustCreate(t, deployments, object(t, graph, name))
	for _, id := range []string{"1", "1", "2"} {
		applied := object(t, graph, name, `spec: {restart: {id: "`+id+`"}}`)
		_, err := objectsOf(deployments).Apply(t.Context(), obj.GetName(), applied, metav1.ApplyOptions{FieldManager: "gitops", Force: true})
		refusal{}.check(t, err)
		beta := object(t, betaGraph, name, `spec: {restart: {id: "`+id+`"}}`)
		_, err = client.Resource(betaDeployments).Namespace(namespace).Apply(t.Context(), obj.GetName(), beta, metav1.ApplyOptions{FieldManager: "gitops", Force: true})
		refusal{}.check(t, err)
	}
}

// betaGraph is graph in v1beta1.
const betaGraph = `
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
spec:
  components:
  - {name: Frontend, type: frontend}
  - {name: Worker, type: worker}
`
