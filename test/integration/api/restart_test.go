// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func restart(strategy string) string { return `spec: {restart: {id: "1", strategy: ` + strategy + `}}` }

var _ = Describe("spec.restart of a DynamoGraphDeployment", func() {
	type request struct {
		change string
		want   refusal
	}
	DescribeTable("is accepted, or refused at the field at fault", func(ctx SpecContext, tt request) {
		mustCreate(ctx, deployments, object(graph, named()))
		_, err := patch(ctx, deployments, namespace, tt.change)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]request{
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
	}))

	It("is refused on create, in both versions", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		refused := refusal{"spec.restart", "spec.restart must be unset on create; set spec.restart.id after creation to request a restart: apply the object without it, then set it"}
		_, err := create(ctx, deployments, object(graph, named(), `spec: {restart: {id: "1"}}`), metav1.DryRunAll)
		Expect(err).To(refused)
		beta := object(betaGraph, named(), `spec: {restart: {id: "1"}}`)
		_, err = objectsOf(betaDeployments).Create(ctx, beta, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(refused)
	})

	It("is accepted when an object that is there is applied, with the same request and with another one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		mustCreate(ctx, deployments, object(graph, named()))
		for _, id := range []string{"1", "1", "2"} {
			restart := `spec: {restart: {id: "` + id + `"}}`
			_, err := objectsOf(deployments).Apply(ctx, namespace, object(graph, named(), restart), metav1.ApplyOptions{FieldManager: "gitops", Force: true})
			Expect(err).NotTo(HaveOccurred())
			_, err = objectsOf(betaDeployments).Apply(ctx, namespace, object(betaGraph, named(), restart), metav1.ApplyOptions{FieldManager: "gitops", Force: true})
			Expect(err).NotTo(HaveOccurred())
		}
	})
})

// betaGraph is graph in v1beta1.
const betaGraph = `
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
spec:
  components:
  - {name: Frontend, type: frontend}
  - {name: Worker, type: worker}
`
