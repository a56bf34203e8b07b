// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
)

const (
	alpha = "nvidia.com/v1alpha1"
	beta  = "nvidia.com/v1beta1"
	// stillName is a deployment without pods that stays unchanged.
	stillName = "still"
)

// Question is a request, and the check of its answer.
type Question interface {
	ask(ctx context.Context) error
}

// Request is a request to the API server, and the check of its answer.
type Request struct {
	verb, path string
	body       []byte
	// apiVersion and name are those of the object in the answer.
	apiVersion, name string
	client           rest.Interface
}

// ask implements Question.
func (r Request) ask(ctx context.Context) error {
	request, code := r.client.Verb(r.verb).AbsPath(r.path), 0
	if r.body != nil {
		request = request.Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", "application/json").Body(r.body)
	}
	raw, err := request.Do(ctx).StatusCode(&code).Raw()
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.verb, r.path, err)
	}
	got := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	if got.APIVersion != r.apiVersion || got.Name != r.name || r.body != nil && code != http.StatusCreated {
		return fmt.Errorf("%s %s answers %d with %s %s, want %s %s", r.verb, r.path, code, got.APIVersion, got.Name, r.apiVersion, r.name)
	}
	return nil
}

// Requests are the measured requests: dry-run creates of a deployment of realistic size in both versions, reads of a stored deployment of
// the same content in both versions, and the dry-run create of a ConfigMap, for which no webhook is called.
type Requests struct {
	CreateAlpha, CreateBeta, GetAlpha, GetBeta, CreateConfigMap Request
	// Bytes is the size of the deployment in JSON.
	Bytes int
}

// Requests creates the deployment to read, and checks that admission is in force: it must refuse an invalid deployment.
func (c *Cluster) Requests(ctx context.Context) (*Requests, error) {
	config, err := c.box.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	rc, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	still := realSize(stillName)
	if err := c.c.Create(ctx, still.DeepCopy()); err != nil {
		return nil, err
	}
	path := func(version string) string {
		return "/apis/" + version + "/namespaces/" + namespace + "/dynamographdeployments"
	}
	still.Name = "asked"
	body, err := json.Marshal(still)
	if err != nil {
		return nil, err
	}
	raw, err := rc.Get().AbsPath(path(beta), stillName).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	other, err := again(raw, "asked")
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "asked"}, Data: map[string]string{
			"deployment": string(body)},
	})
	r := &Requests{
		CreateAlpha:     Request{http.MethodPost, path(alpha), body, alpha, "asked", rc},
		CreateBeta:      Request{http.MethodPost, path(beta), other, beta, "asked", rc},
		GetAlpha:        Request{http.MethodGet, path(alpha) + "/" + stillName, nil, alpha, stillName, rc},
		GetBeta:         Request{http.MethodGet, path(beta) + "/" + stillName, nil, beta, stillName, rc},
		CreateConfigMap: Request{http.MethodPost, "/api/v1/namespaces/" + namespace + "/configmaps", settings, "v1", "asked", rc},
		Bytes:           len(body),
	}
	return r, errors.Join(err, r.inForce(ctx, still))
}

// inForce checks that all requests succeed, and that a deployment with an unknown topology is refused in v1alpha1.
func (r *Requests) inForce(ctx context.Context, dgd *nvidiav1alpha1.DynamoGraphDeployment) error {
	for _, one := range []Request{r.CreateAlpha, r.CreateBeta, r.GetAlpha, r.GetBeta, r.CreateConfigMap} {
		if err := one.ask(ctx); err != nil {
			return err
		}
	}
	wrong := dgd.DeepCopy()
	wrong.Spec.TopologyConstraint.TopologyProfile = "unknown"
	body, err := json.Marshal(wrong)
	if err != nil {
		return err
	}
	refused := r.CreateAlpha
	refused.body = body
	if refused.ask(ctx) == nil {
		return errors.New("admission accepts a deployment of an unknown topology")
	}
	return nil
}

// again turns an object that was read into an object that can be created.
func again(raw []byte, name string) ([]byte, error) {
	o := map[string]any{}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	delete(o, "status")
	o["metadata"] = map[string]any{"name": name, "namespace": namespace}
	return json.Marshal(o)
}

// realSize returns a deployment of 9 kB, as large as users' largest ones, without pods.
func realSize(name string) *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: alpha, Kind: "DynamoGraphDeployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
	dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: topologyName}
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{}
	for _, service := range []string{"Decode", "Prefill", "Encode", "Draft"} {
		main := &corev1.Container{Image: "example.com/dynamo:1", Command: []string{"/bin/sh", "-c"},
			Args: []string{"python3 -m dynamo.vllm --model m"}}
		for i := range 28 {
			main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: "a value as long as users write them"})
		}
		dgd.Spec.Services[service] = &nvidiav1alpha1.ServiceSpec{
			ComponentType: nvidiav1alpha1.ComponentTypeWorker, Replicas: ptr.To[int32](0), Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 2},
			Resources:          &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{GPU: fmt.Sprint(hall.GPUs)}},
			TopologyConstraint: &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: hall.Rack.Name()},
			ExtraPodSpec:       &nvidiav1alpha1.ExtraPodSpec{MainContainer: main},
		}
	}
	return dgd
}

// Asked is an answered request.
type Asked struct {
	// Start is when the request was due. Took counts from Start, so that waiting in the client counts, too.
	Start time.Time
	Took  time.Duration
	Err   error
}

// Ask sends questions in turns at a steady rate until the context ends, waits for pending requests, and returns all results.
func Ask(ctx context.Context, perSecond int, questions ...Question) []Asked {
	interval := time.Second / time.Duration(perSecond)
	var mu sync.Mutex
	var asked []Asked
	var group sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := time.Now()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			group.Wait()
			return asked
		case <-timer.C:
		}
		start, question := due, questions[i%len(questions)]
		group.Go(func() {
			err := question.ask(context.WithoutCancel(ctx))
			one := Asked{Start: start, Took: time.Since(start), Err: err}
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, one)
		})
		due = due.Add(interval)
		timer.Reset(time.Until(due))
	}
}
