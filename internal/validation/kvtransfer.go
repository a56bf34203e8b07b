// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"
	"encoding/json"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

var transferPath = specPath.Child("experimental", "kvTransferPolicy")

// transferPolicy returns a deployment's KV transfer policy with its defaults; nil for none.
func transferPolicy(dgd *nvidiav1beta1.DynamoGraphDeployment) *nvidiav1beta1.KVTransferPolicy {
	if dgd == nil || dgd.Spec.Experimental == nil || dgd.Spec.Experimental.KVTransferPolicy == nil {
		return nil
	}
	return withEnforcement(*dgd.Spec.Experimental.KVTransferPolicy)
}

func withEnforcement(p nvidiav1beta1.KVTransferPolicy) *nvidiav1beta1.KVTransferPolicy {
	if p.Enforcement == "" {
		p.Enforcement = nvidiav1beta1.KVTransferRequired
	}
	return &p
}

// TransferTopologyName returns the ClusterTopology that the deployment's KV transfer policy names; "" for none.
func TransferTopologyName(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	if p := transferPolicy(dgd); p != nil {
		return p.ClusterTopologyName
	}
	return ""
}

// transfer checks the KV transfer policy of a new deployment. An update needs no check, because the policy is immutable.
func transfer(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	return transferErrors(transferPolicy(dgd))
}

// unconvertedTransfer refuses a v1alpha1 policy that v1beta1 cannot express. This check is needed because the schema of v1alpha1 accepts
// any object.
func unconvertedTransfer(dgd Written) field.ErrorList {
	if dgd.Alpha == nil || dgd.Alpha.Spec.Experimental == nil || transferPolicy(dgd.DynamoGraphDeployment) != nil {
		return nil
	}
	written := struct {
		Policy *json.RawMessage `json:"kvTransferPolicy"`
	}{}
	if json.Unmarshal(dgd.Alpha.Spec.Experimental.Raw, &written) != nil || written.Policy == nil {
		return nil
	}
	p := &nvidiav1beta1.KVTransferPolicy{}
	strict := json.NewDecoder(bytes.NewReader(*written.Policy))
	strict.DisallowUnknownFields()
	if err := strict.Decode(p); err != nil {
		return one(field.Invalid(transferPath, field.OmitValueType{}, "cannot be read: "+short(err.Error())))
	}
	return transferErrors(withEnforcement(*p))
}

func transferErrors(p *nvidiav1beta1.KVTransferPolicy) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	for _, problem := range p.Problems() {
		path := transferPath
		if problem.Field != "" {
			path = path.Child(problem.Field)
		}
		if text, ok := problem.BadValue.(string); ok {
			problem.BadValue = short(text)
		}
		errs = append(errs, &field.Error{Type: problem.Type, Field: path, BadValue: problem.BadValue, Detail: field.Say(problem.Detail)})
	}
	return errs
}

// TransferTopology checks a new deployment's KV transfer policy against the ClusterTopology that the policy names; topology is nil if this
// ClusterTopology does not exist.
func TransferTopology(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	p, name := transferPolicy(dgd), transferPath.Child("clusterTopologyName")
	switch {
	case p == nil || p.ClusterTopologyName == "":
		return nil
	case topology == nil:
		return one(badValue(field.ErrorTypeNotFound, name, p.ClusterTopologyName,
			"ClusterTopology not found, nor a ClusterTopologyBinding of that name; ask a cluster admin to create it, or name one "+
				"that exists (kubectl get clustertopologies)"))
	case levelIndex(topology, p.Domain) < 0:
		return one(badValue(field.ErrorTypeNotFound, transferPath.Child("domain"), p.Domain,
			"domain %q does not exist in %s %q; available domains: [%s]",
			short(p.Domain), topology.Source(), short(topology.Name), strings.Join(domainNames(topology, 0), ", ")))
	}
	return nil
}

// transferImmutable refuses changes of the KV transfer policy, because workers with different policies would disagree about transfers.
func transferImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	if apiequality.Semantic.DeepEqual(transferPolicy(updated), transferPolicy(old)) {
		return nil
	}
	return one(field.Forbidden(transferPath, "is immutable and cannot be added, removed, or changed after creation; "+
		"delete and recreate the DynamoGraphDeployment to change the KV transfer policy"))
}
