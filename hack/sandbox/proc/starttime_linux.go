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

// bootID tells start times of this boot from those of an earlier one; both count from zero.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown-boot"
	}
	return strings.TrimSpace(string(id))
})

// startTime reports when the process with this pid was started; a zombie counts as ended, once all of its threads have: as long as one of
// them is still on its way out it may hold the files of all, listening sockets among them.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name in brackets and may hold anything; the third is the state, the 20th the number of
	// threads, the 22nd the start in clock ticks.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("unexpected content of /proc/%d/stat", pid)
	}
	if fields[0] == "X" || fields[0] == "Z" && fields[17] == "1" {
		return "", os.ErrProcessDone
	}
	return bootID() + "/" + fields[19], nil
}

// FindByEnv finds the processes of this user that were started with an environment entry ("NAME=value"), pid file or not.
// It is the second net under Load: for a pid file lost with its directory, or never written because the starting program was killed.
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
