package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// explain turns an error by which the kernel forbids namespaces into an UnavailableError, and only wraps others.
func explain(doing string, cause error) error {
	return machine{proc: "/proc", uid: os.Geteuid()}.explain(doing, cause)
}

// machine is what explain examines to find the reason.
type machine struct {
	proc string
	uid  int
}

func (m machine) explain(doing string, cause error) error {
	forbidden := []error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS, unix.EINVAL, unix.ENOSYS}
	if m.hasUserNamespaces() && !isAny(cause, forbidden) {
		return fmt.Errorf("sandbox: %s: %w", doing, cause)
	}
	reason, advice := m.diagnose(cause)
	return &UnavailableError{
		Doing:  doing,
		Cause:  cause,
		Reason: reason,
		Advice: advice + ", or run without --sandbox as root, in a network namespace or on a machine that may be changed",
	}
}

func (m machine) diagnose(cause error) (reason, advice string) {
	if !m.hasUserNamespaces() {
		return "this kernel has no user namespaces, or /proc is not mounted", "use a kernel with CONFIG_USER_NS, and mount /proc"
	}
	for _, knob := range knobs() {
		if m.sysctl(knob.name) == knob.forbids && (m.outsideUID() != 0 || !knob.onlyOrdinaryUsers) {
			return fmt.Sprintf("%s is %s: %s", knob.name, knob.forbids, knob.meaning),
				fmt.Sprintf("an administrator can allow it by: sysctl -w %s=%s", knob.name, knob.allows) + knob.otherwise
		}
	}
	switch {
	case isAny(cause, []error{unix.ENOSPC, unix.EUSERS}):
		return "too many namespaces exist, or they are nested too deeply",
			"end some, or let an administrator raise user.max_user_namespaces, user.max_net_namespaces or user.max_mnt_namespaces"
	case isAny(cause, []error{unix.EINVAL, unix.ENOSYS}):
		return "this kernel does not support what the sandbox needs", "use a newer kernel, with user and network namespaces"
	}
	return "a chroot, a container's security profile (seccomp, AppArmor, SELinux) or a missing capability forbids it",
		"leave the chroot, or start the container with a profile that allows user namespaces and mounts in them"
}

// knob is a sysctl that can forbid namespaces.
type knob struct {
	name, forbids, allows string
	meaning               string
	onlyOrdinaryUsers     bool
	otherwise             string
}

func knobs() []knob {
	return []knob{
		{
			name: "user.max_user_namespaces", forbids: "0", allows: "10000",
			meaning: "user namespaces are switched off",
		},
		{
			name: "user.max_net_namespaces", forbids: "0", allows: "10000",
			meaning: "network namespaces are switched off",
		},
		{
			name: "user.max_mnt_namespaces", forbids: "0", allows: "10000",
			meaning: "mount namespaces are switched off",
		},
		{
			name: "kernel.unprivileged_userns_clone", forbids: "0", allows: "1",
			meaning: "only root may make user namespaces", onlyOrdinaryUsers: true,
		},
		{
			name: "kernel.apparmor_restrict_unprivileged_userns", forbids: "1", allows: "0",
			meaning: "AppArmor takes the power from ordinary users' user namespaces", onlyOrdinaryUsers: true,
			otherwise: ", or by an AppArmor profile for this program with the rule \"userns,\"",
		},
	}
}

// outsideUID returns this process's user ID in the parent user namespace: inside the sandbox every user is root.
func (m machine) outsideUID() int {
	text, err := os.ReadFile(filepath.Join(m.proc, "self", "uid_map"))
	if err != nil {
		return m.uid
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		_, err := fmt.Sscan(line, &inside, &outside, &size)
		if err == nil && m.uid >= inside && m.uid < inside+size {
			return outside + m.uid - inside
		}
	}
	return m.uid
}

func (m machine) hasUserNamespaces() bool {
	_, err := os.Lstat(filepath.Join(m.proc, "self", "ns", "user"))
	return err == nil
}

// sysctl returns the value of a sysctl, or "" if the kernel does not have it.
func (m machine) sysctl(name string) string {
	text, err := os.ReadFile(filepath.Join(m.proc, "sys", strings.ReplaceAll(name, ".", "/")))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func isAny(err error, targets []error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
