package confine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// forbidden returns the system calls that the agent does not need, grouped by what an attacker who has taken it over could do
// with them. All others that are known by name are allowed: a list of just the calls that the agent makes today would break
// with the next version of Go, the C library or a module. Calls without a name in the tables (newer ones, and other
// architectures that the processor can run) are refused.
func forbidden() [][]string {
	return [][]string{
		{"execve", "execveat", "uselib"}, // running programs
		{ // code in the kernel
			"init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
			"kexec_load", "kexec_file_load", "bpf",
		},
		{ // the memory, files and secrets of other processes
			"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp",
			"migrate_pages", "move_pages", "perf_event_open", "lookup_dcookie", "add_key", "request_key", "keyctl",
		},
		{ // another view of the file system
			"mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen",
			"fsconfig", "fsmount", "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at",
			"mknod", "mknodat", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd",
		},
		{"unshare", "setns"}, // other namespaces; see also conditional
		{ // other users
			"setuid", "setuid32", "setgid", "setgid32", "setreuid", "setreuid32", "setregid", "setregid32", "setresuid",
			"setresuid32", "setresgid", "setresgid32", "setfsuid", "setfsuid32", "setfsgid", "setfsgid32", "setgroups", "setgroups32",
		},
		{ // the machine
			"reboot", "swapon", "swapoff", "acct", "syslog", "sethostname", "setdomainname", "vhangup", "iopl", "ioperm",
			"settimeofday", "stime", "clock_settime", "clock_settime64", "adjtimex", "clock_adjtime", "clock_adjtime64",
		},
		{ // unused here, and used by many attacks on the kernel
			"userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "vmsplice", "memfd_secret", "personality",
			"modify_ldt", "vm86", "vm86old", "set_mempolicy", "set_mempolicy_home_node", "mbind", "nfsservctl", "sysfs", "_sysctl",
			"ustat",
		},
	}
}

// filterSystemCalls installs the filter in all threads.
func filterSystemCalls() error {
	p, err := policy()
	if err != nil {
		return err
	}
	// A filter can be installed only by a thread that has no_new_privs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := seccomp.SetNoNewPrivs(); err != nil {
		return err
	}
	reached()
	return seccomp.LoadFilter(seccomp.Filter{Flag: seccomp.FilterFlagTSync, Policy: p})
}

// reached is called between the two steps of filterSystemCalls. Tests replace it.
var reached = func() {}

// policy returns the rules of the filter: the first group that contains a call decides.
func policy() (seccomp.Policy, error) {
	info, err := arch.GetInfo("")
	if err != nil || len(info.SyscallNames) == 0 {
		return seccomp.Policy{}, fmt.Errorf("%w: the system calls of this architecture are not known: %w", errors.ErrUnsupported, err)
	}
	decided := append(slices.Concat(forbidden()...), "clone3", "clone", "ioctl", "socket", "socketpair")
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(info.SyscallNames)), func(name string) bool { return slices.Contains(decided, name) })
	return seccomp.Policy{
		DefaultAction: seccomp.ActionErrno, // EPERM
		Syscalls: []seccomp.SyscallGroup{
			// Its flags are in memory, which a filter cannot read. Callers fall back to clone on this error.
			{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
			// This group must be the last: a call that meets none of its conditions is not looked up in later groups.
			{Names: others, NamesWithCondtions: conditional(), Action: seccomp.ActionAllow},
		},
	}, nil
}

// userfaultfdNew is the ioctl of /dev/userfaultfd that does the same as the system call userfaultfd.
const userfaultfdNew = 0xaa00

// conditional returns the calls that are allowed only with certain arguments.
func conditional() []seccomp.NameWithConditions {
	const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	calls := []seccomp.NameWithConditions{
		{Name: "clone", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsNotSet, Value: newNamespaces}}},
		{Name: "socketpair", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_UNIX}}},
		{Name: "ioctl", Conditions: []seccomp.Condition{ // no typing on another user's terminal
			{Argument: 1, Operation: seccomp.NotEqual, Value: unix.TIOCSTI},
			{Argument: 1, Operation: seccomp.NotEqual, Value: unix.TIOCLINUX},
			{Argument: 1, Operation: seccomp.NotEqual, Value: userfaultfdNew},
			{Argument: 1, Operation: seccomp.LessOrEqual, Value: math.MaxUint32}, // the kernel ignores the upper 32 bits
		}},
	}
	// Other families can capture and forge packets, or are hardly used. On i386 any socket can also be made by socketcall,
	// whose arguments a filter cannot read; Go uses it for all sockets there.
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		calls = append(calls, seccomp.NameWithConditions{
			Name: "socket", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: family}},
		})
	}
	return calls
}
