// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// ownedBy gives an object another controller.
func ownedBy(object client.Object, kind, name string) {
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "5c0b4e1b-0b1a-4e0e-9f0a-0d8f0a7f0002", Controller: ptr.To(true)}})
}

// TestOwnershipConflict: the condition names object and owner while there is a conflict, and one event reports each change.
func TestOwnershipConflict(t *testing.T) {
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "g-work"}}
	conflict := func(owner string) error {
		theirs.OwnerReferences = nil
		if owner != "" {
			ownedBy(theirs, "Deployment", owner)
		}
		return errors.Join(errors.New("another failure"), &notOurs{fmt.Errorf("%w. Rename it", adoption.ConflictOver("Service", theirs, "this deployment"))})
	}
	o := fine()
	type turn struct{ status, reason, message, event string }
	const controlled = "Service g-work exists and does not belong to this deployment: its controller is Deployment web; it is left alone"
	for i, step := range []struct {
		failure error
		want    *turn
	}{
		{nil, nil},
		{errors.New("another failure"), nil},
		{conflict("web"), &turn{"True", "OwnershipConflict", controlled, corev1.EventTypeWarning}},
		{conflict("web"), &turn{"True", "OwnershipConflict", controlled, ""}},
		{conflict(""), &turn{"True", "OwnershipConflict", "Service g-work exists and does not belong to this deployment: it has no controller; it is left alone", ""}},
		{errors.New("another failure"), &turn{"True", "OwnershipConflict", "Service g-work exists and does not belong to this deployment: it has no controller; it is left alone", ""}},
		{nil, &turn{"False", "OwnershipConflictResolved", "Every object that the deployment needs belongs to it", corev1.EventTypeNormal}},
		{nil, &turn{"False", "OwnershipConflictResolved", "Every object that the deployment needs belongs to it", ""}},
	} {
		before := meta.FindStatusCondition(o.dgd.Status.Conditions, nvidiav1beta1.ConditionOwnershipConflict).DeepCopy()
		o.dgd.Status = statusOf(o, resolved, nil, step.failure)
		var got *turn
		if c := meta.FindStatusCondition(o.dgd.Status.Conditions, nvidiav1beta1.ConditionOwnershipConflict); c != nil {
			event, _ := eventFor(before, *c, false)
			got = &turn{string(c.Status), c.Reason, c.Message, event}
		}
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(turn{})); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestTakenAdapters: an adapter that has the name of the deployment's own is a conflict if another controller owns it.
func TestTakenAdapters(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1"}}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "work", ScalingAdapter: &nvidiav1beta1.ScalingAdapter{}}, {Name: "free"}}
	adapter := func(name, component string, owner *metav1.OwnerReference) nvidiav1beta1.DynamoGraphDeploymentScalingAdapter {
		a := nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		a.Spec.DGDRef.Name, a.Spec.DGDRef.ComponentName = "g", component
		if owner != nil {
			a.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		return a
	}
	ours := metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))
	earlier, theirs := *ours, *ours
	earlier.UID, theirs.Name, theirs.UID = "0", "other", "2"
	for name, tc := range map[string]struct {
		adapter nvidiav1beta1.DynamoGraphDeploymentScalingAdapter
		taken   bool
	}{
		"ours":                     {adapter("g-work", "work", ours), false},
		"without a controller":     {adapter("g-work", "work", nil), false},
		"of an earlier deployment": {adapter("g-work", "work", &earlier), false},
		"another controller's":     {adapter("g-work", "work", &theirs), true},
		"of another name":          {adapter("mine", "work", &theirs), false},
		"not needed":               {adapter("g-free", "free", &theirs), false},
	} {
		got := takenAdapters(dgd, []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{tc.adapter})
		if (len(got) == 1) != tc.taken || tc.taken && got[0].Owner != "DynamoGraphDeployment other" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// afterRead calls a function after each read of an object.
type afterRead struct {
	client.Reader
	then func()
}

// Get implements client.Reader.
func (m afterRead) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := m.Reader.Get(ctx, key, object, options...)
	if _, ok := object.(*corev1.Service); ok {
		m.then()
	}
	return err
}

// stale lists what was there before.
type stale struct {
	client.Client
	before corev1.ConfigMapList
}

// List implements client.Reader.
func (s stale) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.before.DeepCopyInto(list.(*corev1.ConfigMapList))
	return nil
}

var _ = Describe("An object that another controller takes", func() {
	newDeployment := func(ctx SpecContext) *nvidiav1beta1.DynamoGraphDeployment {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: suite.Namespace(api), Name: "llm"}}
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker"}}
		Expect(api.Create(ctx, dgd)).To(Succeed())
		return dgd
	}

	It("while it is adopted is left as it is", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		dgd := newDeployment(ctx)
		orphan := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: dgd.Namespace, Name: "llm", Labels: map[string]string{render.LabelGraph: "llm", render.LabelManagedBy: render.ManagedBy}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}
		Expect(api.Create(ctx, orphan, client.FieldOwner(render.FieldOwner))).To(Succeed())
		wanted := func() *corev1.Service {
			s := orphan.DeepCopy()
			s.TypeMeta, s.ObjectMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, metav1.ObjectMeta{Namespace: orphan.Namespace, Name: orphan.Name, Labels: orphan.Labels}
			s.Spec = corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 81, Protocol: corev1.ProtocolTCP}}}
			return s
		}
		relabel := func(value string) {
			GinkgoHelper()
			change := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, render.LabelGraph, value)
			Expect(api.Patch(ctx, orphan.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(change)))).To(Succeed())
		}
		apply := func(live client.Reader) error {
			return (&Reconciler{Client: api, Live: live}).applyChild(ctx, dgd, wanted(), &corev1.Service{}, func() bool { return false })
		}
		err := apply(afterRead{api, func() { relabel("other") }})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		got := &corev1.Service{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(orphan), got)).To(Succeed())
		Expect(got.OwnerReferences).To(BeEmpty())
		Expect(got.Spec.Ports).To(ConsistOf(HaveField("Port", int32(80))))

		By("it is an orphan again")
		relabel("llm")
		Expect(apply(api)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(orphan), got)).To(Succeed())
		Expect(metav1.IsControlledBy(got, dgd)).To(BeTrue())
		Expect(got.Spec.Ports).To(ConsistOf(HaveField("Port", int32(81))))
	})

	It("is not deleted when it is wanted no longer", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		dgd := newDeployment(ctx)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: dgd.Namespace, Name: "llm", Labels: map[string]string{render.LabelManagedBy: render.ManagedBy}}}
		config.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))}
		Expect(api.Create(ctx, config)).To(Succeed())
		cache := stale{Client: api, before: corev1.ConfigMapList{Items: []corev1.ConfigMap{*config.DeepCopy()}}}
		ownedBy(config, "Deployment", "web")
		Expect(api.Update(ctx, config)).To(Succeed())
		Expect((&Reconciler{Client: cache, Live: api}).prune(ctx, dgd, &corev1.ConfigMapList{}, nil)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed(), "it was deleted")
	})
})
