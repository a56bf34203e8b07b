// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/sandbox"
)

// requeueAfter is shorter than in production, so that a gang that cannot bind is soon evicted.
const requeueAfter = 20 * time.Second

var (
	cluster *Cluster
	api     client.WithWatch
)

func TestMain(m *testing.M) {
	flag.Parse()
	sources, err := FindSources(filepath.Join("..", ".."))
	if err != nil {
		fmt.Println("skipped:", err)
		return
	}
	ctrllog.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel), zap.StacktraceLevel(zapcore.PanicLevel), zap.WriteTo(os.Stderr)))
	os.Exit(run(m, sources))
}

func run(m *testing.M, sources Sources) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "trellis-peers")
	if err != nil {
		log.Fatal(err)
	}
	maps.DeleteFunc(providers, func(name string, _ map[string]string) bool {
		return slices.ContainsFunc(strings.Split(name, " with "), func(peer string) bool { return !sources.Has(peer) })
	})
	s, err := sandbox.Up(ctx, sandbox.Options{
		Name: "peers", Dir: filepath.Join(dir, "s"), Root: sources.Root, Shape: sandbox.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1},
		Operator: true, Manager: sandbox.ManagerOptions{Args: []string{"--requeue-after=" + requeueAfter.String()}},
	})
	if err != nil {
		log.Print("bringing the sandbox up: ", err)
		return 1
	}
	cluster, err = Start(ctx, s, sources, filepath.Join(dir, "p"))
	defer func() {
		if err := errors.Join(cluster.Stop(), s.Down(context.Background())); err != nil {
			log.Print("taking the sandbox down: ", err)
			code = 1
		}
		if code == 0 {
			_ = os.RemoveAll(dir)
		} else {
			log.Print("the peers' logs are in ", filepath.Join(dir, "p"))
		}
	}()
	if err != nil {
		log.Print("starting the peers: ", err)
		return 1
	}
	fmt.Println("beside " + strings.Join(Versions, ", "))
	config, err := s.RESTConfig()
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1
	if api, err = client.NewWithWatch(config, client.Options{Scheme: operator.NewScheme()}); err != nil {
		log.Fatal(err)
	}
	return m.Run()
}
