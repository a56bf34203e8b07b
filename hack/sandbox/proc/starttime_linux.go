// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// bootID distinguishes start times of different boots, which both count from zero.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown-boot"
	}
	return strings.TrimSpace(string(id))
})

// startTime returns when the process with this pid started. A zombie has ended only when all its threads have: until then a thread may
// keep the files of the process open, such as listening sockets.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program name in parentheses, which may contain any character. The third is the state, the 20th the number
	// of threads, the 22nd the start time in clock ticks.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("unexpected content of /proc/%d/stat", pid)
	}
	if fields[0] == "X" || fields[0] == "Z" && fields[17] == "1" {
		return "", os.ErrProcessDone
	}
	return bootID() + "/" + fields[19], nil
}

// FindByEnv finds the processes of this user that were started with an environment entry ("NAME=value"). Unlike Load it also finds
// processes without a pid file: it was deleted with its directory, or never written because the starting program was killed.
func FindByEnv(entry string) []*Process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var found []*Process
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), append([]byte("\x00"+entry), 0)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		started, err := startTime(pid)
		if err != nil {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		found = append(found, &Process{Name: strings.TrimSpace(string(name)), PID: pid, started: started})
	}
	return found
}
