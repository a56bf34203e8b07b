// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	gpuResource = "nvidia.com/gpu"
	gpuSocket   = "nvidia.sock"
	// look is the interval at which the plugin checks for a restarted kubelet and for broken devices.
	look = 500 * time.Millisecond
)

// gpus is a device plugin with devices that exist only by name.
type gpus struct {
	deviceplugin.UnimplementedDevicePluginServer
	node  string
	count int
	// unhealthy is a file with the number of broken devices: the first ones break.
	unhealthy string
	// refusing is a file; while it exists, the plugin refuses to allocate devices to containers.
	refusing string
}

func runGPUs() error {
	runtime.UnlockOSThread()
	g := &gpus{}
	if err := parse(func(f *flag.FlagSet) {
		f.StringVar(&g.node, "node", "", "name of the node")
		f.IntVar(&g.count, "count", 0, "number of devices")
		f.StringVar(&g.unhealthy, "unhealthy", "", "file with the number of devices that are broken")
		f.StringVar(&g.refusing, "refusing", "", "file that has all devices refused while it exists")
	}); err != nil {
		return err
	}
	var known os.FileInfo
	var server *grpc.Server
	for ; ; time.Sleep(look) {
		now, err := os.Stat(deviceplugin.KubeletSocket)
		if err != nil || known != nil && os.SameFile(known, now) && known.ModTime().Equal(now.ModTime()) {
			continue
		}
		if server != nil {
			server.Stop()
		}
		server, err = g.register() // the kubelet has restarted: it removes the sockets of all plugins
		fmt.Println("registered with the kubelet:", err)
		if err == nil {
			known = now
		}
	}
}

func (g *gpus) register() (*grpc.Server, error) {
	socket := filepath.Join(deviceplugin.DevicePluginPath, gpuSocket)
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, g)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("unix://"+deviceplugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return server, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: gpuSocket, ResourceName: gpuResource,
	})
	return server, err
}

func (g *gpus) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch sends all devices, and sends them again when their health has changed.
func (g *gpus) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	for sent := -1; ; {
		if broken := g.broken(); broken != sent {
			if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: g.devices(broken)}); err != nil {
				return err
			}
			sent = broken
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(look):
		}
	}
}

func (g *gpus) devices(broken int) []*deviceplugin.Device {
	var all []*deviceplugin.Device
	for i := range g.count {
		health := deviceplugin.Healthy
		if i < broken {
			health = deviceplugin.Unhealthy
		}
		all = append(all, &deviceplugin.Device{ID: fmt.Sprintf("GPU-%s-%d", g.node, i), Health: health})
	}
	return all
}

func (g *gpus) broken() int {
	data, err := os.ReadFile(g.unhealthy)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
}

// Allocate passes devices to containers like NVIDIA's plugin.
func (g *gpus) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	if _, err := os.Stat(g.refusing); err == nil {
		return nil, errors.New("the driver does not answer")
	}
	response := &deviceplugin.AllocateResponse{}
	for _, c := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(c.DevicesIds, ",")},
		})
	}
	return response, nil
}
