// Package confine gives up the capabilities and system calls that the agent does not need and an attacker who has taken over
// its process could use. Neither the process nor its children can get them back.
//
// It is a second line of defense. What documents may do is decided where they are read.
package confine

import (
	"errors"
	"fmt"
	"slices"

	libcap "kernel.org/pub/linux/libs/security/libcap/cap"
)

// Machine returns the capabilities of an agent that manages the machine itself.
func Machine() []libcap.Value {
	return []libcap.Value{
		libcap.NET_ADMIN,    // links, addresses, routes, rules, neighbors, nftables, net.* sysctls
		libcap.CHOWN,        // owner and group of managed files
		libcap.DAC_OVERRIDE, // managed files in directories of other users, or that nobody may write to
		libcap.FOWNER,       // modes of files of other users
		libcap.FSETID,       // the set-group-ID bit of files of other groups
		libcap.LEASE,        // read leases of documents of other users
		// Some sysctls require more than being root:
		libcap.SYS_ADMIN,    // kernel.dmesg_restrict, kernel.kptr_restrict, kernel.unprivileged_bpf_disabled, net.core.bpf_jit_*
		libcap.SYS_MODULE,   // kernel.modules_disabled, kernel.usermodehelper.*
		libcap.SETPCAP,      // kernel.usermodehelper.*
		libcap.SYS_PTRACE,   // kernel.yama.ptrace_scope
		libcap.SYS_RAWIO,    // vm.mmap_min_addr
		libcap.SYS_RESOURCE, // user.max_*, fs.mqueue.*
	}
}

// Sandbox returns the capabilities of an agent in a sandbox: it has one user, whose files are its own.
func Sandbox() []libcap.Value {
	return []libcap.Value{
		libcap.NET_ADMIN,
		libcap.DAC_OVERRIDE, // managed files that their owner may not read
	}
}

// Process drops, in all threads of this process, the capabilities that are not in keep; makes the system calls of [forbidden],
// such as execve, fail with EPERM; and sets no_new_privs. Call it once, when everything is set up.
//
// Errors: errors.ErrUnsupported if the system calls of this architecture are not known; others if the kernel refuses a
// step. The steps before it are not undone.
func Process(keep []libcap.Value) error {
	if err := dropCapabilities(keep); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := filterSystemCalls(); err != nil {
		return fmt.Errorf("forbid system calls: %w", err)
	}
	return nil
}

func dropCapabilities(keep []libcap.Value) error {
	had, left := libcap.GetProc(), libcap.NewSet()
	var bounds []libcap.Value
	for v := range libcap.MaxBits() {
		if !slices.Contains(keep, v) {
			bounds = append(bounds, v)
			continue
		}
		for _, flag := range []libcap.Flag{libcap.Permitted, libcap.Effective} {
			has, err := had.GetFlag(flag, v)
			if err == nil {
				err = left.SetFlag(flag, has, v)
			}
			if err != nil {
				return fmt.Errorf("%v: %w", v, err)
			}
		}
	}
	// The bounding set limits the capabilities that executing a file can give. Dropping from it needs CAP_SETPCAP; a process
	// without that gains no capabilities by executing files either, see Process.
	if may, err := had.GetFlag(libcap.Effective, libcap.SETPCAP); err == nil && may {
		if err := libcap.DropBound(bounds...); err != nil {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	return errors.Join(libcap.ResetAmbient(), left.SetProc())
}
