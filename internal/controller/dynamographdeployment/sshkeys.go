// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/render"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create

const sshKeyBits = 2048

// createSSHKeys creates the namespace's key pair for SSH connections from the leaders of TensorRT-LLM replicas to their workers, unless the
// key pair exists. The operator may create Secrets but not read them, so it tries the create once for each deployment after each operator
// start. The Secret has no owner, because the deployments of a namespace share it.
func (r *Reconciler) createSSHKeys(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) error {
	name := client.ObjectKeyFromObject(dgd)
	if of, done := r.sshKeys.Load(name); done && of == dgd.UID {
		return nil
	}
	private, public, err := sshKeyPair()
	if err != nil {
		return fmt.Errorf("making a key pair for ssh: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: dgd.Namespace, Name: framework.SSHSecret, Labels: map[string]string{render.LabelManagedBy: render.ManagedBy},
		},
		Data: map[string][]byte{framework.SSHPrivateKey: private, framework.SSHPublicKey: public},
	}
	// The create does not wait until the cache shows the Secret, because that would need the right to list Secrets.
	err = r.Client.Create(ctx, secret, client.FieldOwner(render.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
	}
	r.sshKeys.Store(name, dgd.UID)
	return nil
}

func sshKeyPair() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, sshKeyBits)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, nil, err
	}
	shared, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(shared), nil
}
