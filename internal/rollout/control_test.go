// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// TestControlOf reads what users say of an update that runs.
func TestControlOf(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        Control
		wrong       []string
	}{
		"nothing": {},
		"all": {
			map[string]string{AnnotationPaused: "true", AnnotationAborted: "0123abcd", AnnotationPartition: "25%", AnnotationProgressDeadline: "30m"},
			Control{Paused: true, Aborted: "0123abcd", Partition: ptr.To(intstr.FromString("25%")), ProgressDeadline: 30 * time.Minute}, nil,
		},
		"moves":                 {map[string]string{AnnotationMoves: "InPlace"}, Control{Moves: trellisv1alpha1.MovesInPlace}, nil},
		"moves of another kind": {map[string]string{AnnotationMoves: "Always"}, Control{}, []string{AnnotationMoves}},
		"not paused":            {map[string]string{AnnotationPaused: "false"}, Control{}, nil},
		"wrong values count as none": {
			map[string]string{AnnotationPaused: "yes", AnnotationAborted: "latest", AnnotationPartition: "-1", AnnotationProgressDeadline: "600"},
			Control{}, []string{AnnotationPaused, AnnotationAborted, AnnotationPartition, AnnotationProgressDeadline},
		},
		"a deadline that no pod can keep": {map[string]string{AnnotationProgressDeadline: "1s"}, Control{}, []string{AnnotationProgressDeadline}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			dgd.Annotations = test.annotations
			got, problems := ControlOf(dgd)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var wrong []string
			for _, p := range problems {
				wrong = append(wrong, p.Annotation)
			}
			if diff := cmp.Diff(test.wrong, wrong); diff != "" {
				t.Errorf("wrong annotations (-want +got):\n%s", diff)
			}
		})
	}
}
