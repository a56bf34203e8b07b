// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hall

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Ask is a demand for every side: gangs of equal pods, each gang in one domain of level Each and all of them together in one domain of
// level Whole; all or nothing.
type Ask struct {
	Name        string
	Whole, Each Level
	Gangs, Pods int
	// GPUs of one pod.
	GPUs int
}

// Size returns the number of requested GPUs.
func (a Ask) Size() int { return a.Gangs * a.Pods * a.GPUs }

// Answer is the host of every pod, by gang; nil: refused.
type Answer [][]string

// Refused is the error of a side that finds no capacity; its text is the reason.
type Refused string

func (r Refused) Error() string { return string(r) }

// Ledger tracks the free GPUs of a hall independently of the measured code, and judges answers.
type Ledger struct {
	shape Shape
	index map[string]int
	// free GPUs of each host; processors, memory and pod slots never run out before them (see Requests).
	free []int
}

// NewLedger returns a ledger of a hall with some bound pods.
func NewLedger(s Shape, bound []*corev1.Pod) *Ledger {
	l := &Ledger{shape: s, index: make(map[string]int, s.Hosts), free: make([]int, s.Hosts)}
	for i := range s.Hosts {
		l.index[HostName(i)], l.free[i] = i, GPUs
	}
	for _, p := range bound {
		q := p.Spec.Containers[0].Resources.Requests[GPU]
		l.free[l.index[p.Spec.NodeName]] -= int(q.Value())
	}
	return l
}

// Free returns the free GPUs of the hall.
func (l *Ledger) Free() int {
	n := 0
	for _, f := range l.free {
		n += f
	}
	return n
}

// Take books an answer, or returns an error: every gang must be complete, each gang in one domain, all gangs in one domain, and no host
// over capacity.
func (l *Ledger) Take(a Ask, answer Answer) error {
	if len(answer) != a.Gangs {
		return fmt.Errorf("%s: %d gangs answered, %d asked", a.Name, len(answer), a.Gangs)
	}
	taken := map[int]int{}
	var whole domain
	for g, hosts := range answer {
		if len(hosts) != a.Pods {
			return fmt.Errorf("%s: gang %d has %d of %d pods", a.Name, g, len(hosts), a.Pods)
		}
		var each domain
		for _, host := range hosts {
			i, ok := l.index[host]
			if !ok {
				return fmt.Errorf("%s: there is no host %q", a.Name, host)
			}
			if err := each.join(l.shape.path(i), a.Each); err != nil {
				return fmt.Errorf("%s: gang %d is split: %w", a.Name, g, err)
			}
			if err := whole.join(l.shape.path(i), a.Whole); err != nil {
				return fmt.Errorf("%s is split: %w", a.Name, err)
			}
			if taken[i] += a.GPUs; taken[i] > l.free[i] {
				return fmt.Errorf("%s: host %s is over capacity: %d GPUs taken, %d free", a.Name, host, taken[i], l.free[i])
			}
		}
	}
	for i, n := range taken {
		l.free[i] -= n
	}
	return nil
}

// TakeTogether books answers to several asks that must share one domain of a level.
func (l *Ledger) TakeTogether(level Level, asks []Ask, answers []Answer) error {
	var whole domain
	for i, a := range asks {
		if err := l.Take(a, answers[i]); err != nil {
			return err
		}
		for _, hosts := range answers[i] {
			for _, host := range hosts {
				if err := whole.join(l.shape.path(l.index[host]), level); err != nil {
					return fmt.Errorf("%s is away from the others: %w", a.Name, err)
				}
			}
		}
	}
	return nil
}

// Give releases the GPUs of an answer.
func (l *Ledger) Give(a Ask, answer Answer) {
	for _, hosts := range answer {
		for _, host := range hosts {
			l.free[l.index[host]] += a.GPUs
		}
	}
}

// domain is the domain that hosts share; the zero value has no host yet.
type domain struct {
	known bool
	path  [3]string
}

func (d *domain) join(path [3]string, level Level) error {
	if !d.known {
		d.known, d.path = true, path
		return nil
	}
	for l := Zone; l <= level; l++ {
		if d.path[l] != path[l] {
			return fmt.Errorf("%s and %s are two %ss", d.path[l], path[l], l.Name())
		}
	}
	return nil
}

// Judge books an answer. For a refusal it returns an error if there was capacity.
func (l *Ledger) Judge(a Ask, answer Answer) error {
	if answer != nil {
		return l.Take(a, answer)
	}
	if l.Holds(a) {
		return fmt.Errorf("%s was refused, but there is capacity", a.Name)
	}
	return nil
}

// Holds reports whether the ask fits. The result is exact, because all its pods are equal.
func (l *Ledger) Holds(a Ask) bool {
	pods := map[[3]string]int{} // that fit in a domain of level Each
	for i, free := range l.free {
		pods[cut(l.shape.path(i), a.Each)] += free / a.GPUs
	}
	gangs := map[[3]string]int{}
	for path, n := range pods {
		gangs[cut(path, a.Whole)] += n / a.Pods
	}
	for _, n := range gangs {
		if n >= a.Gangs {
			return true
		}
	}
	return false
}

// cut returns the path of an enclosing domain.
func cut(path [3]string, level Level) [3]string {
	for l := range path {
		if Level(l) > level {
			path[l] = ""
		}
	}
	return path
}
