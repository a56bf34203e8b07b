// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Files of the sandbox's certificates, relative to its directory.
const (
	caFile          = "pki/ca.crt"
	servingCertFile = "pki/serving.crt"
	servingKeyFile  = "pki/serving.key"
	tokenKeyFile    = "pki/service-accounts.key"
)

// certificateLife is longer than any sandbox lives.
const certificateLife = 5 * 365 * 24 * time.Hour

// authority signs the certificates of the sandbox. Its key is not stored, since the sandbox signs nothing later.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// identity is a signed certificate and its key, PEM-encoded.
type identity struct {
	cert, key []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "trellis-sandbox-" + name})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

// client makes the client certificate of a user: the common name is the user, the organizations are the groups.
func (a *authority) client(user string, groups ...string) (identity, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return identity{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// serving makes the serving certificate of all components.
func (a *authority) serving() (identity, error) {
	template, err := newTemplate(pkix.Name{CommonName: "trellis-sandbox"})
	if err != nil {
		return identity{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return identity{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return identity{cert: encodeCert(der), key: keyPEM}, err
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	return keyutil.MarshalPrivateKeyToPEM(key)
}

// writePKI writes the files that components read: the certificate of the authority, their serving certificate, and
// the key that signs tokens.
func (a *authority) writePKI(dir string) error {
	serving, err := a.serving()
	if err != nil {
		return err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tokenKey, err := encodeKey(tokens)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		caFile:          encodeCert(a.cert.Raw),
		servingCertFile: serving.cert,
		servingKeyFile:  serving.key,
		tokenKeyFile:    tokenKey,
	} {
		if err := writeFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a private file and creates its directory.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
