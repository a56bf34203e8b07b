// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SSHSecret is the Secret with the key pair for ssh connections from the leader of a TensorRT-LLM replica to its workers.
const SSHSecret = "mpi-run-ssh-secret"

// Keys of SSHSecret.
const (
	SSHPrivateKey = "private.key"
	SSHPublicKey  = "private.key.pub"
)

const (
	sshVolume = "mpi-ssh-keys"
	sshPath   = "/ssh-pk"
)

// sshServer is a script that prepares the pod for ssh, for any user of the image. It copies the key, because ssh refuses a key that other
// users can read, and the pod's group can always read the volume of a Secret.
const sshServer = `set -e
mkdir -p ~/.ssh /run/sshd 2>/dev/null || mkdir -p ~/.ssh
cp ` + sshPath + `/private.key ~/.ssh/id_rsa
cp ` + sshPath + `/private.key.pub ~/.ssh/authorized_keys
chmod 700 ~/.ssh
chmod 600 ~/.ssh/id_rsa ~/.ssh/authorized_keys
printf 'Host *\n  Port ` + sshPort + `\n  IdentityFile ~/.ssh/id_rsa\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n' > ~/.ssh/config
[ -f ~/.ssh/host_key ] || ssh-keygen -q -t rsa -N '' -f ~/.ssh/host_key
sshd=(/usr/sbin/sshd -p ` + sshPort + ` -h ~/.ssh/host_key -o PidFile=none -o UsePAM=no -o StrictModes=no -o AuthorizedKeysFile="$HOME/.ssh/authorized_keys")
`

const workerScript = sshServer + `exec "${sshd[@]}" -D -e
`

// leaderScript waits for the ssh server of every pod. Then it starts one rank for each GPU of each pod with mpirun. All ranks get the
// leader's environment variables, except for the variables that describe the leader pod itself.
const leaderScript = sshServer + `"${sshd[@]}"
sleep ` + publishing + `
for host in ${TRELLIS_HOSTS//,/ }; do
  until (exec 3<>"/dev/tcp/$host/` + sshPort + `") 2>/dev/null; do echo "waiting for ssh of $host"; sleep 2; done
done
options=()
if [ "$(id -u)" = 0 ]; then options+=(--allow-run-as-root); fi
for name in $(compgen -e); do
  case "$name" in
    HOME|HOSTNAME|OLDPWD|PWD|SHLVL|POD_NAME|POD_UID|POD_IP|TRELLIS_POD_INDEX|_) ;;
    *) options+=(-x "$name") ;;
  esac
done
exec mpirun "${options[@]}" --oversubscribe -n RANKS -H "${TRELLIS_HOSTS//,/:GPUS,}:GPUS" \
  --mca pml ob1 --mca plm_rsh_args "-p ` + sshPort + ` -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null" \
  trtllm-llmapi-launch "$@"
`

// launchTRTLLM makes the leader run the command with mpirun on all GPUs of the replica, and makes each worker run an ssh server for the
// leader.
func launchTRTLLM(replica Replica, leader, worker *corev1.PodSpec) bool {
	if replica.GPUs == 0 {
		return false
	}
	for _, pod := range []*corev1.PodSpec{leader, worker} {
		main := &pod.Containers[0]
		addEnv(main, corev1.EnvVar{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "1"})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: sshVolume, MountPath: sshPath, ReadOnly: true})
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: sshVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: SSHSecret},
		}})
	}
	script := strings.NewReplacer(
		"RANKS", strconv.FormatInt(replica.GPUs*int64(replica.Nodes), 10),
		"GPUS", strconv.FormatInt(replica.GPUs, 10),
	).Replace(leaderScript)
	main := &leader.Containers[0]
	main.Command = slices.Concat([]string{"/bin/bash", "-c", script, TRTLLM}, main.Command)

	member := &worker.Containers[0]
	member.Command, member.Args = []string{"/bin/bash", "-c", workerScript}, nil
	withoutProbes(member)
	port, _ := strconv.Atoi(sshPort)
	member.ReadinessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(port))}},
		InitialDelaySeconds: 20,
		PeriodSeconds:       20,
		TimeoutSeconds:      5,
		FailureThreshold:    10,
	}
	return true
}
