// Package process answers questions about other processes: who is at the other end of a socket, and whether a process
// was killed and only cannot end yet. A thread that hangs in the kernel, for instance in a file system that does not answer,
// keeps all files and sockets of its process open, even after SIGKILL.
//
// No answer is about a later process with the same ID. What cannot be found out, for instance about a process in a PID
// namespace that is not visible here, is an error, or not so.
package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is a process, told apart from a later one with the same ID. The zero value is none.
type Process struct {
	PID       int
	started   uint64 // in clock ticks since the machine started
	namespace string // in which the process has the ID
}

// Self returns this process.
func Self() (Process, error) { return Find(os.Getpid()) }

// Find returns the process that has an ID now.
func Find(pid int) (Process, error) {
	d, err := open(pid)
	if err != nil {
		return Process{}, err
	}
	defer d.close()
	return d.process()
}

// String returns the process in the form that Parse reads.
func (p Process) String() string { return fmt.Sprintf("%d %d %s", p.PID, p.started, p.namespace) }

// Parse reads what String has written, in this process or another one.
func Parse(text string) (Process, error) {
	var p Process
	if _, err := fmt.Sscan(text, &p.PID, &p.started, &p.namespace); err != nil {
		return Process{}, fmt.Errorf("not a process: %q", text)
	}
	return p, nil
}

// Killed reports whether the process still exists but will never run again: it was killed, or has exited, and some of its threads have not
// ended because they hang in the kernel. waits says where. A stopped or frozen process is not killed, nor is one that goes on without its main
// thread. What a hanging thread has begun may still be done, but nothing else.
func (p Process) Killed() (waits string, killed bool) {
	d, err := open(p.PID)
	if err != nil {
		return "", false
	}
	defer d.close()
	if now, err := d.process(); err != nil || now != p {
		return "", false
	}
	threads, err := d.threads()
	if err != nil {
		return "", false
	}
	signal := d.killSignal("status", "ShdPnd")
	var hanging []string
	for _, t := range threads {
		switch {
		case t.dead():
		case signal || t.ending() || d.killSignal("task/"+t.id+"/status", "SigPnd"):
			hanging = append(hanging, fmt.Sprintf("thread %s in %s", t.id, d.waitsIn(t)))
		default:
			return "", false
		}
	}
	return strings.Join(hanging, ", "), len(hanging) > 0
}

// dir is the directory of a process in /proc. It never leads to another process.
type dir struct {
	pid  int
	root *os.Root
}

func open(pid int) (dir, error) {
	if pid <= 0 {
		return dir{}, errors.New("the process is not visible here")
	}
	root, err := os.OpenRoot("/proc/" + strconv.Itoa(pid))
	return dir{pid, root}, err
}

func (d dir) close() { _ = d.root.Close() } // nothing was written

func (d dir) process() (Process, error) {
	stat, err := d.stat("stat")
	if err != nil {
		return Process{}, err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return Process{d.pid, stat.started, namespace}, err
}

// threads returns all threads that have not been released, the main one included.
func (d dir) threads() ([]stat, error) {
	tasks, err := d.root.Open("task")
	if err != nil {
		return nil, err
	}
	defer func() { _ = tasks.Close() }() // nothing was written
	ids, err := tasks.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []stat
	for _, id := range ids {
		t, err := d.stat("task/" + id + "/stat")
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// waitsIn returns the function of the kernel in which a thread waits, as far as it can be known, and its state.
func (d dir) waitsIn(t stat) string {
	function, err := d.root.ReadFile("task/" + t.id + "/wchan")
	if err != nil || len(function) == 0 || string(function) == "0" {
		function = []byte("the kernel")
	}
	return fmt.Sprintf("%s (state %c)", function, t.state)
}

// Hangs is Killed for a process that has had time to end.
func (p Process) Hangs() (waits string, hangs bool) {
	const interval = 20 * time.Millisecond
	for began := time.Now(); ; <-time.After(interval) {
		waits, killed := p.Killed()
		if !killed || time.Since(began) > Patience {
			return waits, killed
		}
	}
}
