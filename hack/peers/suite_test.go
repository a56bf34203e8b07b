// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
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
	"github.com/trellis-k8s/trellis/internal/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/sandbox/progress"
)

// root of the repository.
var root = filepath.Join("..", "..")

// requeueAfter is shorter than in production, so that a gang that cannot bind is soon evicted.
const requeueAfter = 20 * time.Second

var (
	cluster *sandbox.Sandbox
	api     client.WithWatch
)

func TestMain(m *testing.M) {
	flag.Parse()
	names := peers.Chosen()
	set, err := peers.Find(root, names...)
	if err != nil {
		fmt.Println("skipped:", err)
		return
	}
	maps.DeleteFunc(providers, func(name string, _ map[string]string) bool {
		return slices.ContainsFunc(strings.Split(name, " with "), func(peer string) bool { return !slices.Contains(names, peer) })
	})
	ctrllog.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel), zap.StacktraceLevel(zapcore.PanicLevel), zap.WriteTo(os.Stderr)))
	os.Exit(run(m, set))
}

func run(m *testing.M, set *peers.Set) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "trellis-peers")
	if err != nil {
		log.Fatal(err)
	}
	if root, err = filepath.Abs(root); err != nil {
		log.Fatal(err)
	}
	logs := filepath.Join(dir, "logs")
	cluster, err = sandbox.Up(ctx, sandbox.Options{
		Name: "peers", Dir: filepath.Join(dir, "s"), Root: root, Shape: sandbox.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1},
		Operator: true, Manager: sandbox.ManagerOptions{Args: []string{"--requeue-after=" + requeueAfter.String()}}, Peers: set.Beside(progress.Discard),
	})
	if err != nil {
		log.Print("bringing the sandbox up: ", err)
		return 1
	}
	defer func() {
		if code != 0 {
			if err := os.CopyFS(logs, os.DirFS(filepath.Dir(cluster.LogFile(sandbox.DefaultManager)))); err != nil {
				log.Print("keeping the logs: ", err)
			}
			log.Print("the logs are in ", logs)
		}
		if err := cluster.Down(context.Background()); err != nil {
			log.Print("taking the sandbox down: ", err)
			code = 1
		}
		if code == 0 {
			_ = os.RemoveAll(dir)
		}
	}()
	fmt.Println("on " + strings.Join(set.Versions(ctx), "; "))
	config, err := cluster.RESTConfig()
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1
	if api, err = client.NewWithWatch(config, client.Options{Scheme: operator.NewScheme()}); err != nil {
		log.Fatal(err)
	}
	return m.Run()
}
