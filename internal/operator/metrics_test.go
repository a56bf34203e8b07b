// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trellis-k8s/trellis/internal/webhook"
)

// Metrics have a login by default, and the certificate of the webhooks where there is one.
func TestMetricsOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args             []string
		secure, ownsCert bool
	}{
		"by default":              {nil, true, false},
		"with the webhooks only":  {[]string{"--conversion=false"}, true, false},
		"without a certificate":   {[]string{"--conversion=false", "--webhooks=false"}, true, true},
		"plain":                   {[]string{"--metrics-secure=false"}, false, false},
		"no metrics at all":       {[]string{"--metrics-bind-address=0"}, false, false},
		"at an address, securely": {[]string{"--metrics-bind-address=127.0.0.1:1234"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := metricsOptions(flagged(t, tc.args...), &webhook.Certificate{})
			if got.SecureServing != tc.secure || (got.FilterProvider != nil) != tc.secure {
				t.Errorf("HTTPS %t, login %t, want %t", got.SecureServing, got.FilterProvider != nil, tc.secure)
			}
			config := &tls.Config{}
			for _, set := range got.TLSOpts {
				set(config)
			}
			if tc.secure && (config.GetCertificate == nil) != tc.ownsCert {
				t.Error("the certificate is another one")
			}
			if tc.secure && config.MinVersion != tls.VersionTLS13 {
				t.Errorf("TLS from %x", config.MinVersion)
			}
		})
	}
}

func flagged(t *testing.T, args ...string) Options {
	t.Helper()
	o, flags := Options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(append([]string{"--namespace=x"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o
}

// What is to be ignored is a name or a group of names.
func TestIgnoredResourcesAreNamesOrGroups(t *testing.T) {
	for flag, refusal := range map[string]string{
		"--ignored-resources=example.com/gpumem,nvidia.com": "",
		"--ignored-resources=":                              "",
		"--ignored-resources=example.com/a/b":               "--ignored-resources=example.com/a/b: use the name of a resource",
		"--ignored-resources=example.com/":                  "use the name of a resource",
		"--ignored-resources=a,no group":                    "--ignored-resources=no group: use the name of a resource",
	} {
		o := flagged(t, flag)
		if err := o.Complete(); (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: %v, want %q", flag, err, refusal)
		}
	}
}

// The number of series has a bound, whatever the flags say.
func TestMetricsFlagsAreBounded(t *testing.T) {
	for flag, refusal := range map[string]string{
		"--graph-metrics=10000":                 "",
		"--graph-metrics=10001":                 "use a number from 0 to 10000",
		"--graph-metrics=-1":                    "use a number from 0 to 10000",
		"--metrics-resources=a,b,c,d,e,f,g,h":   "",
		"--metrics-resources=a,b,c,d,e,f,g,h,i": "at most 8 are counted",
	} {
		o := flagged(t, flag)
		if err := o.Complete(); (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: %v, want %q", flag, err, refusal)
		}
	}
}
