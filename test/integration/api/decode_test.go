// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"math"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// One object that Go cannot read stops the operator's informer for all objects. So the schema must refuse whatever the Go
// types cannot take, or take for ever.
var _ = Describe("The schema of a DynamoGraphDeployment", func() {
	worker := func(fields string) string { return "spec: {services: {Worker: {" + fields + "}}}" }
	type creation struct {
		patch string
		want  refusal
	}
	DescribeTable("refuses what Go cannot read", func(ctx SpecContext, tt creation) {
		_, err := create(ctx, deployments, object(graph, named(), tt.patch), metav1.DryRunAll)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]creation{
		"replicas beyond int32":  {worker(`replicas: 3000000000`), refusal{"spec.services.Worker.replicas", "int32"}},
		"priority beyond int32":  {pod(`{priority: -3000000000}`), refusal{"spec.services.Worker.extraPodSpec.priority", "-2147483648"}},
		"probe's port beyond":    {worker(`livenessProbe: {httpGet: {port: 3000000000}}`), refusal{"spec.services.Worker.livenessProbe.httpGet.port", "2147483647"}},
		"user beyond int64":      {pod(`{securityContext: {runAsUser: 1.0e+30}}`), refusal{"spec.services.Worker.extraPodSpec.securityContext.runAsUser", "9.007199254740991e+15"}},
		"quantity, exponent 1.5": {worker(`sharedMemory: {size: 1e1.5}`), refusal{"spec.services.Worker.sharedMemory.size", "should match"}},
		"quantity, exponent huge": {
			worker(`sharedMemory: {size: "1e-999999999"}`), refusal{"spec.services.Worker.sharedMemory.size", "should match"},
		},
		"container's quantity": {pod(`{mainContainer: {resources: {limits: {cpu: "1E2147483648"}}}}`), refusal{"spec.services.Worker.extraPodSpec.mainContainer.resources.limits.cpu", "should match"}},
		"string of a quantity": {worker(`resources: {limits: {gpu: "1e999999999"}}`), refusal{"spec.services.Worker.resources.limits.gpu", "should match"}},
		"quantity, very long":  {worker(`sharedMemory: {size: "` + string(make10k()) + `"}`), refusal{"spec.services.Worker.sharedMemory.size", "may not be more than 64"}},
		"env value a boolean":  {worker(`envs: [{name: A, value: true}]`), refusal{"spec.services.Worker.envs[0].value", "must be of type string"}},
		"free object a list":   {worker(`checkpoint: []`), refusal{"spec.services.Worker.checkpoint", "must be of type object"}},
		"free config a string": {worker(`eppConfig: {config: "x"}`), refusal{"spec.services.Worker.eppConfig.config", "must be of type object"}},
	}))

	DescribeTable("accepts only what Go reads, extremes included", func(ctx SpecContext, fields string) {
		created, err := create(ctx, deployments, object(graph, named(), worker(fields)), metav1.DryRunAll)
		Expect(err).NotTo(HaveOccurred())
		raw, err := created.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		// A quantity that takes for ever, such as 1e-999999999, is computed with all its digits, and allocates about 10 MiB a second.
		// Other goroutines allocate, too, but not in each of three reads.
		least := uint64(math.MaxUint64)
		for range 3 {
			least = min(least, allocatedBy(func() {
				Expect(json.Unmarshal(raw, &nvidiav1alpha1.DynamoGraphDeployment{})).To(Succeed())
			}))
		}
		Expect(least).To(BeNumerically("<", 1<<20), "bytes allocated by reading it")
	}, suite.Entries(map[string]string{
		"largest int32":     `extraPodSpec: {priority: 2147483647}`,
		"largest int64":     `extraPodSpec: {securityContext: {runAsUser: 9007199254740991}}`,
		"float of a number": `extraPodSpec: {terminationGracePeriodSeconds: 1.0e+3}`,
		"number as size":    `sharedMemory: {size: 1073741824}`,
		"fraction as size":  `sharedMemory: {size: "1.5"}`,
		"exponents":         `extraPodSpec: {mainContainer: {resources: {limits: {cpu: "1e-99", memory: "9E99"}}}}`,
		"port by name":      `livenessProbe: {httpGet: {port: http}}`,
		"nulls":             `extraPodSpec: {containers: null, volumes: null, mainContainer: {args: null, resources: null}}`,
	}, SpecTimeout(suite.Timeout())))
})

func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func make10k() []byte {
	digits := make([]byte, 10_000)
	for i := range digits {
		digits[i] = '9'
	}
	return digits
}
