// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package proc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

const listenOn = "TRELLIS_TEST_LISTEN_ON"

// TestMain is also the program of many threads that listens, for the test below.
func TestMain(m *testing.M) {
	if address := os.Getenv(listenOn); address != "" {
		listen(address)
	}
	os.Exit(m.Run())
}

func listen(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	memory := make([]byte, 64<<20) // to be given back when the process ends, by the last thread of it
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	var up sync.WaitGroup
	for range 64 {
		up.Add(1)
		go func() {
			runtime.LockOSThread()
			up.Done()
			select {}
		}()
	}
	up.Wait()
	fmt.Println("listening on", l.Addr())
	// The runtime ends a program in which nothing can happen any more: one goroutine waits for connections.
	for err == nil {
		_, err = l.Accept()
	}
}

// A program that waits for the end of a process starts the next one on its port. The first thread of a killed process is a zombie while others
// still hold its files.
func TestAnEndedProcessHoldsNoPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	for range 3 {
		dir := t.TempDir()
		p, err := Start(Spec{
			Name: "listener", Path: os.Args[0], Env: append(os.Environ(), listenOn+"="+address), Dir: dir,
			LogFile: filepath.Join(dir, "log"), PIDFile: filepath.Join(dir, "listener.pid"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill(t.Context()) })
		waitFor(t, p, "listening on")
		found, err := Load(p.pidFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := found.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
