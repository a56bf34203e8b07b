// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// withClaim gives the pods of a graph a volume by a claim.
func withClaim(b *bench, number int, claim string) graphs {
	o := asking(number, 2, 0)
	mounted := []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	o.Groups[0].Spec.Roles[0].Template.Spec.Volumes = mounted
	for _, pod := range o.Pods {
		pod.Spec.Volumes = mounted
	}
	all := graphs{o.DGD.Name: o}
	b.s.objects.reader, b.s.providers = all, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{silent{}}})
	b.s.queue.add(clientKey(o))
	return all
}

// A claim that is not known binds nothing until all claims are known; then its pods wait for it, and it wakes them.
func TestPodsWaitForTheirClaim(t *testing.T) {
	b := newBench(t, Options{})
	known := false
	b.s.ledger.bindersKnown(func() bool { return known })
	all := withClaim(b, 1, "models")
	if b.look(); len(b.s.queue.waiting) != 0 {
		t.Fatal("pods wait for a claim that may be there")
	}
	uncounted := func() map[string]string {
		e := b.s.ledger.evaluate(clientKey(all["g1"]))
		e.noteUncounted(all["g1"])
		return e.d.result.UncountedVolumes
	}
	if got := uncounted(); got["work"] != "claim models" {
		t.Errorf("what is not known of volumes: %v", got)
	}

	b = newBench(t, Options{})
	known = true
	b.s.ledger.bindersKnown(func() bool { return known })
	all = withClaim(b, 1, "models")
	if b.look(); len(b.s.queue.waiting) != 1 {
		t.Fatal("pods are placed without their claim")
	}
	if got := uncounted(); len(got) > 0 {
		t.Errorf("what is not known of volumes, where all is: %v", got)
	}
	b.expect("the claim is named", all["g1"], "volume claim models does not exist; needs 2 pods x 1 gpu in one rack")

	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "models", Annotations: map[string]string{volumes.AnnBindCompleted: "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(""), VolumeName: "v"},
	}
	in := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "r", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}}}}}
	b.s.queue.wakeUp(b.s.ledger.volumeSet(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: in}},
	}))
	b.s.queue.wakeUp(b.s.ledger.volumeSet(claim))
	b.look()
	for _, pod := range all["g1"].Pods {
		if node := b.nodeOf(pod); node != "b0" && node != "b1" {
			t.Errorf("%s is on %q, and its volume in rack b", pod.Name, node)
		}
	}
}

// Objects of volumes, and pods that are bound, wake the graphs that rules keep waiting, and no others.
func TestRulesWakeWhomTheyConcern(t *testing.T) {
	b := newBench(t, Options{})
	b.s.ledger.bindersKnown(func() bool { return true })
	withClaim(b, 1, "models")
	b.look()
	b.s.queue.wakeUp(b.s.ledger.volumeSet(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}}))
	if n := b.look(); n != 1 {
		t.Errorf("%d plans after another claim, want 1", n)
	}
	w, _ := b.s.queue.waitingFor(clientKey(asking(1, 2, 0)))
	if !w.ruled || w.unmet != nil {
		t.Errorf("it waits as %+v", w)
	}

	plain := waitingGraphs(t, 1)
	plain.s.queue.wakeUp(plain.s.ledger.volumeSet(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}}))
	if n := plain.look(); n != 0 {
		t.Errorf("%d plans of a graph without claims", n)
	}
}
